"""Memory of ``evaluate`` on a 4 GB file, in a process of its own."""

import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

SHAPE, QUICK_SHAPE = (1_000_000, 1_000), (20_000, 20)

MEASURE = """
import json, sys, threading, time
import focalcal as fc
fc.evaluate, fc.open_predictions

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024

before, peak, done = anonymous(), 0.0, False

def watch():
    global peak
    while not done:
        peak = max(peak, anonymous())
        time.sleep(0.01)

watcher = threading.Thread(target=watch)
watcher.start()
start = time.perf_counter()
ece = fc.evaluate(sys.argv[1], bootstrap=0).values["ece"]
done = True
watcher.join()
print(json.dumps({"before": before, "peak": peak, "seconds": time.perf_counter() - start, "ece": ece}))
"""


def write_large_file(path: Path, samples: int, classes: int) -> None:
    """Write random logits and labels as an npz, in blocks."""
    generator = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        with archive.open("logits.npy", "w", force_zip64=True) as member:
            header = {"descr": "<f4", "fortran_order": False, "shape": (samples, classes)}
            np.lib.format.write_array_header_1_0(member, header)
            for _ in range(samples // 10_000):
                member.write(generator.standard_normal((10_000, classes), dtype=np.float32).tobytes())
        with archive.open("labels.npy", "w") as member:
            np.lib.format.write_array(member, generator.integers(classes, size=samples))


def main(quick: bool = False) -> None:
    samples, classes = QUICK_SHAPE if quick else SHAPE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.npz"
        start = time.perf_counter()
        write_large_file(path, samples, classes)
        size = path.stat().st_size / 1e9
        written = time.perf_counter() - start
        result = subprocess.run([sys.executable, "-c", MEASURE, str(path)], check=True, capture_output=True, text=True)
    figures = json.loads(result.stdout)
    Console().print(
        f"evaluate on a file of {size:.2g} GB ({samples:,}×{classes:,}): at most {figures['peak']:.0f} MB of its own "
        f"memory, {figures['before']:.0f} MB of it before it began; {figures['seconds']:.0f} s "
        f"(writing the file took {written:.0f} s; {torch.get_num_threads()} threads)"
    )


if __name__ == "__main__":
    main()
