"""Property tests with examples that nobody has tried, and hostile files: rounds with other seeds until the time is up.

``make fuzz`` runs it. The tests of ``make test`` draw the same examples in every run; here each round draws its own,
from a seed that is printed, so that ``make fuzz SEED=…`` repeats the round. A round is an attack on everything that is
read (reliability/attack.py), for a quarter of the time at most, and then every property test.
"""

import argparse
import secrets
import subprocess
import sys
import time
from pathlib import Path

ATTACK = Path(__file__).parent / "reliability" / "attack.py"
CASES = 20_000


def attack(seed: int, seconds: float) -> int:
    """Run hostile cases for some time; 1 if one of them was not refused in one sentence."""
    command = [sys.executable, "-W", "ignore", str(ATTACK), "--seed", str(seed), "--cases", str(CASES)]
    return subprocess.run([*command, "--seconds", f"{seconds:.0f}"], check=False).returncode


def run_round(seed: int, workers: int, seconds: float) -> int | None:
    """Run every property test from one seed; None if the time was up first."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis", "-n", str(workers), "tests"]
    command += ["--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}", "-p", "no:cacheprovider"]
    with subprocess.Popen(command) as tests:
        try:
            return tests.wait(seconds)
        except subprocess.TimeoutExpired:
            tests.terminate()
            return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="time for all rounds")
    parser.add_argument("--seed", type=int, help="run one round, with this seed")
    parser.add_argument("--workers", type=int, default=2, help="processes that share the tests")
    options = parser.parse_args()
    end, rounds = time.monotonic() + options.seconds, 0
    while True:
        seed = secrets.randbelow(2**32) if options.seed is None else options.seed
        print(f"Round {rounds + 1}: make fuzz SEED={seed}", flush=True)
        found = attack(seed, max(1.0, (end - time.monotonic()) / 4))
        found = found or run_round(seed, options.workers, end - time.monotonic())
        if found:
            print(f"Failed. Repeat it with: make fuzz SEED={seed}", flush=True)
            return 1
        rounds += found is not None
        if found is None or options.seed is not None or time.monotonic() >= end:
            print(f"{rounds} complete round(s) found nothing.", flush=True)
            return 0


if __name__ == "__main__":
    sys.exit(main())
