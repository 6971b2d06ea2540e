"""Sweeps on a real Ray cluster of two nodes."""

import os
import signal
import socket
import threading
import time
import warnings

import pytest

from focalcal.sweeps import Plan, SweepInterrupted, sweep, train_all
from focalcal.sweeps.display import SweepDisplay
from focalcal.sweeps.ray_runs import RayOptions, train_on_ray
from ray_nodes import add_node, kill_node, two_nodes
from tiny_runs import prediction_bytes, weights

pytest.importorskip("ray")
pytestmark = [pytest.mark.processes, pytest.mark.slow]

TINY = ("data.train_size=50", "model.hidden=[8]")


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        with two_nodes() as nodes:
            yield nodes


def runs_in(folder, *changes, losses=("cross-entropy", "fl-3")):
    return list(Plan("digits/mlp", (*TINY, *changes), losses, (0,), folder).runs())


def test_the_same_weights_as_here(cluster, tmp_path):
    found = sweep("digits/mlp", [*TINY, "epochs=2"], out=tmp_path / "ray", losses=["fl-3"], on="ray", progress=False)
    assert (found.losses, found.failed) == (("fl-3",), ())
    (here,) = runs_in(tmp_path / "here", "epochs=2", losses=("fl-3",))
    assert train_all([here], jobs=1) == []
    assert prediction_bytes(tmp_path / "ray/fl-3/seed-0") == prediction_bytes(here.path)
    assert not list((tmp_path / "ray").glob(".sweep-*"))
    # Finished runs are skipped: nothing is asked of a cluster.
    assert train_on_ray(runs_in(tmp_path / "ray", "epochs=2", losses=("fl-3",)), RayOptions(), out=tmp_path) == []


def test_a_killed_node_costs_nothing_but_time(cluster, tmp_path):
    doomed = add_node(cluster)
    runs = runs_in(tmp_path / "ray", "epochs=60")

    class Killer(SweepDisplay):
        """Kills a node as soon as both runs, on a node each, have a checkpoint."""

        killed = False

        def update(self, runs):
            if not self.killed and all(run.files.has_checkpoints for run in runs):
                kill_node(cluster, doomed)
                self.killed = True

    killer = Killer()
    assert train_on_ray(runs, RayOptions(), out=tmp_path / "ray", display=killer) == []
    assert killer.killed
    here = runs_in(tmp_path / "here", "epochs=60")
    assert train_all(here, jobs=1) == []
    for there, own in zip(runs, here, strict=True):
        assert {name: value.tolist() for name, value in weights(there.path).items()} == {
            name: value.tolist() for name, value in weights(own.path).items()
        }
        assert prediction_bytes(there.path) == prediction_bytes(own.path)


def test_an_interrupt_saves_every_run(cluster, tmp_path):
    runs = runs_in(tmp_path, "epochs=2000")  # one waits for a core

    class Interrupter(SweepDisplay):
        def update(self, runs):
            if sum(run.files.has_checkpoints for run in runs) == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SweepInterrupted, match="the same command resumes them"):
        train_on_ray(runs, RayOptions(), out=tmp_path, display=Interrupter())
    begun = [run for run in runs if run.files.has_checkpoints]
    assert len(begun) == 1
    assert all("the state is saved" in run.files.output.read_text() for run in begun)
    assert not any(run.is_finished for run in runs)


def test_failures_are_told_in_their_own_words(cluster, tmp_path):
    plan = Plan("digits/mlp", (*TINY, "epochs=2"), ("cross-entropy", "fl-3"), (0,), tmp_path)
    diverges, works = plan.runs()
    diverges = type(diverges)(
        diverges.loss,
        diverges.seed,
        diverges.path,
        diverges.recipe.with_changes(optimizer={"name": "sgd", "lr": 1e30}),
    )
    failed = train_on_ray([diverges, works], RayOptions(), out=tmp_path)
    assert [(run.loss, "finite" in reason) for run, reason in failed] == [("cross-entropy", True)]
    assert works.is_finished


def test_a_full_disk_is_tried_again_and_then_told(cluster, tmp_path):
    (run,) = runs_in(tmp_path, "data=ray_nodes:full_disk", losses=("fl-3",))
    failed = train_on_ray([run], RayOptions(retries=1), out=tmp_path)
    ((_, reason),) = failed
    assert "No space left on device" in reason
    assert "tried 2 times" in reason


def test_every_run_refused_is_one_sentence_and_leaves_nothing(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("FOCALCAL_DATA", str(tmp_path / "nowhere"))
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="cifar10") as told:
        sweep("cifar10/resnet8", ["epochs=1"], out=out, losses=["fl-3"], on="ray", cpus_per_run=1, progress=False)
    assert "\n" not in str(told.value)
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "changes", "sentence"),
    [
        (RayOptions(cpus_per_run=500), (), "A run takes 500 CPUs and 0 GPUs, and no node of the cluster has them"),
        (RayOptions(gpus_per_run=1), (), "A run takes 1 CPUs and 1 GPUs"),
        (RayOptions(), ("hardware.devices=2",), "is to be trained on 2 devices"),
    ],
)
def test_what_no_node_can_do_is_refused(cluster, tmp_path, options, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_on_ray(runs_in(tmp_path / "x", "epochs=2", *changes), options, out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_worker_that_dies_every_time_is_told(cluster, tmp_path):
    """As where the machine's memory is not enough: the worker is killed whenever the run begins."""
    (run,) = runs_in(tmp_path, "epochs=3000", losses=("fl-3",))
    stopped = threading.Event()

    def kill():
        while not stopped.is_set():
            for pid in _workers("train fl-3, seed 0"):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        failed = train_on_ray([run], RayOptions(retries=1), out=tmp_path)
    finally:
        stopped.set()
        thread.join()
    assert [reason.startswith("its worker died, tried 2 times") for _, reason in failed] == [True]


def _workers(name):
    """Processes of this cluster whose title is that of a task."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    title = file.read().decode(errors="replace")
            except OSError:
                continue
            if title.startswith(f"ray::{name}"):
                found.append(int(entry))
    return found


def test_no_cluster_at_the_address(monkeypatch):
    from focalcal.metrics.streaming import ray_cluster

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ValueError, match=f"There is no Ray cluster at {address}: Connection refused; start one with"):
        ray_cluster.ray_cluster(address).__enter__()
    with pytest.raises(ValueError, match="'nowhere' is not the address of a cluster"):
        ray_cluster.ray_cluster("nowhere").__enter__()


def test_a_machine_too_busy_for_ray(monkeypatch):
    import ray

    from focalcal.metrics.streaming import ray_cluster

    def too_late(**_):
        raise Exception("The current node timed out during startup. This could happen because of the raylet.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", too_late)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ValueError, match=r"^Ray cannot be started on this machine: The current node timed out during"):
        ray_cluster.ray_cluster().__enter__()
