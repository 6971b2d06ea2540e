"""Report: the time to write it beside ``evaluate``, its size, and the time a browser takes to open it.

``python -m benchmarks.report`` measures 50,000×1,000 and 10,000,000×10 from files; ``--samples`` changes the second.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from safetensors.torch import save_file

from benchmarks.timing import machine, medians
from focalcal.metrics import evaluate
from focalcal.predictions import Predictions
from focalcal.report import write_report

_MEASURE = """
import json, sys, time
from benchmarks.report import Peak, anonymous_memory
from focalcal.report import write_report
before, start = anonymous_memory(), time.perf_counter()
with Peak() as peak:
    write_report(*sys.argv[1:])
print(json.dumps({"before": before, "peak": peak.value, "seconds": time.perf_counter() - start}))
"""
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


def over_confident(n: int, classes: int, sharpness: float = 1.5) -> tuple[torch.Tensor, torch.Tensor]:
    """Make logits that are too sharp by a factor, and labels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, classes, (n,), generator=generator)
    logits = torch.empty(n, classes).normal_(generator=generator)
    logits[torch.arange(n), labels] += np.log(classes).item()
    return logits.mul_(sharpness), labels


def beside_evaluate(folder: Path, console: Console, quick: bool) -> None:
    file, page = folder / "middle.safetensors", folder / "middle.html"
    samples, classes = (500, 5) if quick else (50_000, 1000)
    Predictions.from_logits(*over_confident(samples, classes)).save(file)
    competitors = {"evaluate": lambda: evaluate(file), "report": lambda: write_report(file, page)}
    times = medians(competitors, seconds=30, quick=quick)
    ratio = times["report"] / times["evaluate"]
    console.print(
        f"{samples:,}×{classes:,}: evaluate with 1,000 resamples {times['evaluate']:.1f} s, "
        f"report {times['report']:.1f} s ({ratio:.2f}×), {page.stat().st_size / 1e6:.1f} MB"
    )
    open_page(page, console, 1 if quick else 5)


def many_samples(folder: Path, console: Console, samples: int, quick: bool) -> None:
    file, page = folder / "large.safetensors", folder / "large.html"
    logits, labels = over_confident(samples, 10)
    save_file({"logits": logits, "labels": labels}, file)
    del logits, labels
    # In a process of its own: what was made here must not count, nor what this process has kept of it.
    made = subprocess.run([sys.executable, "-c", _MEASURE, file, page], check=True, capture_output=True, text=True)
    figures = json.loads(made.stdout)
    console.print(
        f"{samples:,}×10: report {figures['seconds']:.0f} s, {figures['peak']:.0f} MB of memory at the peak, "
        f"{figures['before']:.0f} MB of it before it began; {page.stat().st_size / 1e6:.1f} MB"
    )
    open_page(page, console, 1 if quick else 5)


def open_page(page: Path, console: Console, times_opened: int) -> None:
    """Open the page a few times and print how long it took until it can be used."""
    chromium = os.environ.get("FOCALCAL_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        console.print("  (no chromium, so opening is not measured)")
        return
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        for _ in range(times_opened):
            tab = browser.new_page()
            start = time.perf_counter()
            tab.goto(page.resolve().as_uri(), timeout=120_000)
            tab.wait_for_selector("html[data-ready]", timeout=120_000)
            times.append(time.perf_counter() - start)
            tab.close()
        browser.close()
    console.print(
        f"  opened and ready in {np.median(times):.2f} s (median of {times_opened}; fastest {min(times):.2f} s)"
    )


def anonymous_memory() -> float:
    """Return the MB of this process that are not a file's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024


class Peak:
    """The most memory in use inside the block, sampled every few milliseconds."""

    def __enter__(self) -> "Peak":
        self.value, self._done = 0.0, False
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._done:
            self.value = max(self.value, anonymous_memory())
            time.sleep(0.01)

    def __exit__(self, *exception: object) -> None:
        self._done = True
        self._watcher.join()


def main(samples: int = 10_000_000, quick: bool = False) -> None:
    console = Console()
    console.print(machine())
    with tempfile.TemporaryDirectory() as name:
        beside_evaluate(Path(name), console, quick)
        many_samples(Path(name), console, 2_000 if quick else samples, quick)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000, help="of the second file")
    main(parser.parse_args().samples)
