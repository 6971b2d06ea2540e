"""How much memory a process takes to evaluate a file. Run as a script, this file is that process."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from focalcal.metrics import evaluate
from focalcal.predictions import Predictions

STATUS = Path("/proc/self/status")


def own_memory():
    """Bytes that the process has allocated itself: files that are mapped or cached do not count."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


class Watch(threading.Thread):
    """Looks at the memory every few milliseconds."""

    def __init__(self):
        super().__init__(daemon=True)
        self.start_memory = self.peak = own_memory()
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(0.003):
            self.peak = max(self.peak, own_memory())


def work(path, resamples):
    torch.set_num_threads(1)
    evaluate(
        Predictions.from_logits(torch.randn(100, 10), torch.arange(100) % 10), bootstrap=2
    )  # what is loaded on use
    watch = Watch()
    watch.start()
    result = evaluate(path, bootstrap=resamples)
    watch.done.set()
    watch.join()
    print(result.n, watch.peak - watch.start_memory)


def measured(path, resamples):
    command = [sys.executable, __file__, str(path), str(resamples)]
    samples, taken = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2:]
    return int(samples), int(taken)


def saved(path, n, num_classes):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, num_classes, generator=generator)
    Predictions.from_logits(logits, torch.randint(0, num_classes, (n,), generator=generator)).save(path)
    return path


pytestmark = pytest.mark.skipif(
    not STATUS.exists(), reason="Memory is read from /proc, which this system does not have."
)


@pytest.mark.parametrize(
    ("n", "num_classes", "resamples"),
    [
        (100_000, 1000, 100),  # many classes, and few enough samples for intervals
        (4_100_000, 23, 100),  # many more samples than are kept
    ],
)
def test_a_file_of_400_mb_takes_less_than_200_mb(n, num_classes, resamples, tmp_path):
    path = saved(tmp_path / "test.safetensors", n, num_classes)
    assert path.stat().st_size > 400e6
    samples, taken = measured(path, resamples)
    assert samples == n
    assert taken < 200e6


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
