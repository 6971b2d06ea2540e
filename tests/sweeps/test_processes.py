import os
import signal
import subprocess
import threading
import time

from focalcal.sweeps import Plan, measure_plan, train_all
from focalcal.sweeps.display import SweepDisplay

_TINY = ("epochs=2", "data.train_size=50", "model.hidden=[8]")


def test_finished_runs_are_not_trained_again(trained: Plan):
    runs = list(trained.runs())
    before = {run.path: (run.path / "history.jsonl").stat().st_mtime_ns for run in runs}
    assert train_all(runs, jobs=1) == []
    assert before == {run.path: (run.path / "history.jsonl").stat().st_mtime_ns for run in runs}


def test_a_run_that_fails_leaves_the_others_alone(tmp_path):
    plan = Plan("digits/mlp", _TINY, ("cross-entropy", "brier"), (0,), tmp_path)
    broken, whole = plan.runs()
    (broken.path / "checkpoints").mkdir(parents=True)
    (broken.path / "checkpoints" / "epoch-00001-step-0000000.safetensors").touch()
    (broken.path / "config.yaml").write_text(broken.recipe.with_changes(epochs=9).to_yaml())
    failed = train_all([broken, whole], jobs=2)
    assert [(run.loss, "epochs=9 (now" in reason) for run, reason in failed] == [("cross-entropy", True)]
    assert whole.is_finished
    assert measure_plan(plan, failed, bootstrap=0).losses == ("brier",)


def test_a_killed_run_is_told_and_goes_on_when_asked_again(tmp_path):
    plan = Plan("digits/mlp", ("epochs=60", *_TINY[1:]), ("cross-entropy",), (0,), tmp_path)
    (run,) = plan.runs()

    class Killer(SweepDisplay):
        """Kills the run as soon as it has a checkpoint."""

        killed = False

        def update(self, runs):
            if self.killed or not list(run.path.glob("checkpoints/*.safetensors")):
                return
            for pid in _children_of(_forkserver_pid()):
                os.kill(pid, signal.SIGKILL)
            self.killed = True

    killer = Killer()
    failed = train_all([run], jobs=1, display=killer)
    if not run.is_finished:  # the run may have been faster than the killer
        assert [reason for _, reason in failed] == ["it was ended by SIGKILL"]
        assert train_all([run], jobs=1) == []
    assert killer.killed
    assert run.is_finished


def _children_of(pid: int) -> list[int]:
    asked = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in asked.stdout.split()]


def _forkserver_pid() -> int:
    from multiprocessing import forkserver

    return forkserver._forkserver._forkserver_pid


def test_sigterm_saves_every_run(tmp_path):
    plan = Plan("digits/mlp", ("epochs=500", *_TINY[1:]), ("cross-entropy", "fl-3"), (0,), tmp_path)
    runs = list(plan.runs())

    def stop_when_begun() -> None:
        while not all(list(run.path.glob("checkpoints/*.safetensors")) for run in runs):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop_when_begun)
    thread.start()
    try:
        train_all(runs, jobs=2)
    except Exception as error:
        assert "the same command resumes them" in str(error)  # noqa: PT017 - the thread must be joined first
    else:
        raise AssertionError("the sweep was not interrupted")
    finally:
        thread.join()
    for run in runs:
        assert not run.is_finished
        assert "the state is saved" in (run.path / "train.log").read_text()


def test_the_outcome_tells_what_is_missing(tmp_path):
    plan = Plan("digits/mlp", _TINY, ("cross-entropy",), (0,), tmp_path)
    try:
        measure_plan(plan)
    except ValueError as error:
        assert "is finished" in str(error)  # noqa: PT017
    else:
        raise AssertionError("nothing was trained")
