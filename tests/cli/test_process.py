"""The installed command itself: exit codes, streams, and what it imports."""

import contextlib
import json
import os
import subprocess
import sys
from threading import Thread

import pytest

from oracles.known_truth import predictions


def focalcal(*arguments, **environment):
    command = [sys.executable, "-m", "focalcal", *map(str, arguments)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, env=variables, timeout=120)


def read_all(terminal, texts):
    """Until the other end is closed, which Linux reports as an error."""
    with contextlib.suppress(OSError):
        while text := os.read(terminal, 2**12):
            texts.append(text.decode(errors="replace"))


def test_bad_input(tmp_path):
    ran = focalcal("doctor", tmp_path / "nothing.npz")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.decode() == f"focalcal: There is no file {tmp_path / 'nothing.npz'}.\n"


def test_terminal_without_unicode(tmp_path):
    predictions(50).save(tmp_path / "a.npz")
    ran = focalcal("evaluate", tmp_path / "a.npz", "--bootstrap", 0, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ran.returncode, ran.stderr) == (0, b"")  # no progress either, as stderr is no terminal
    assert b"ECE" in ran.stdout


def test_help_does_not_import_torch():
    code = "import sys, focalcal.cli; sys.exit(sum(name in sys.modules for name in ('torch', 'numpy', 'rich.table')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals.")
def test_results_on_stdout_progress_and_failures_on_stderr(over_confident):
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "focalcal", "evaluate", str(over_confident), "--json", "--max-ece", "0.02"]
    environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    shown = []
    reader = Thread(target=read_all, args=(leader, shown))  # a terminal that nobody reads from fills up
    reader.start()
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=environment, timeout=120)
    os.close(follower)
    reader.join()
    os.close(leader)
    assert ran.returncode == 1
    assert "evaluating over.safetensors" in "".join(shown)
    assert "focalcal: ece is" in "".join(shown)
    assert json.loads(ran.stdout)["gates_met"] is False
