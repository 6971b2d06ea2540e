"""The installed command itself: exit codes, streams, and what it imports."""

import json
import os
import subprocess
import sys

import pytest
from oracles.known_truth import predictions


def focalcal(*arguments, **environment):
    command = [sys.executable, "-m", "focalcal", *map(str, arguments)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, env=variables, timeout=120)


def test_results_on_stdout_failures_on_stderr(over_confident):
    ran = focalcal("evaluate", over_confident, "--json", "--bootstrap", 0, "--max-ece", 0.02)
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["gates_met"] is False
    assert ran.stderr.decode().startswith("focalcal: ece is")


def test_bad_input(tmp_path):
    ran = focalcal("doctor", tmp_path / "nothing.npz")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.decode() == f"focalcal: There is no file {tmp_path / 'nothing.npz'}.\n"


def test_terminal_without_unicode(tmp_path):
    predictions(50).save(tmp_path / "a.npz")
    ran = focalcal("evaluate", tmp_path / "a.npz", "--bootstrap", 0, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"ECE" in ran.stdout


def test_help_does_not_import_torch():
    code = "import sys, focalcal.cli; sys.exit(sum(name in sys.modules for name in ('torch', 'numpy', 'rich.table')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals.")
def test_progress_only_on_a_terminal(over_confident):
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "focalcal", "evaluate", str(over_confident), "--json", "--bootstrap", "0"]
    environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=environment, timeout=120)
    os.close(follower)
    shown = os.read(leader, 2**16).decode()
    os.close(leader)
    assert "evaluating over.safetensors" in shown
    assert json.loads(ran.stdout)["n"] == 600
