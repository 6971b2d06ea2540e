"""Two processes with gloo, each with its part of the data. Run as a script, this file is one of the processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

from focalcal.metrics.evaluating import evaluate
from focalcal.metrics.streaming import sketch
from focalcal.metrics.streaming.accumulator import Accumulator
from focalcal.predictions import Predictions


def predictions(weighted):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1001, 6, generator=generator) * 3
    labels = (logits + torch.randn(1001, 6, generator=generator) * 3).argmax(dim=1)
    weights = torch.rand(1001, generator=generator).double() if weighted else None
    return Predictions.from_logits(logits, labels, weights=weights)


def part_of(preds, rank):
    return preds.select(torch.arange(rank, len(preds), 2))


def accumulated(preds):
    accumulator = Accumulator(6)
    for block in preds.blocks(100):
        accumulator.update(logits=block.values, labels=block.labels, weights=block.weights)
    return accumulator


# Weighted or not, and how many samples are kept: more than there are; fewer; and so many that all would be kept, though
# one of two processes has more than half of the places.
CASES = [(False, 2**17), (True, 2**17), (False, 200), (False, 1002)]


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    sent, all_reduce = [], dist.all_reduce

    def counted(tensor, *args, **kwargs):
        sent.append(str(tensor.dtype))
        return all_reduce(tensor, *args, **kwargs)

    dist.all_reduce = counted
    for weighted, kept in CASES:
        sent.clear()
        sketch.KEPT_SAMPLES = kept
        accumulator = accumulated(part_of(predictions(weighted), rank)).all_reduce()
        name = f"{rank}-{weighted}-{kept}"
        Path(folder, f"{name}.json").write_text(json.dumps(accumulator.compute().to_dict() | {"sent": sent}))
        save_file(accumulator.state_dict(), Path(folder, f"{name}.safetensors"))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    started = [subprocess.Popen([sys.executable, __file__, str(rank), str(folder)]) for rank in range(2)]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    return folder


@pytest.mark.parametrize(("weighted", "kept"), CASES)
def test_two_processes_hold_the_same_and_what_one_would_hold(weighted, kept, results, monkeypatch):
    names = [Path(results, f"{rank}-{weighted}-{kept}") for rank in range(2)]
    found = [json.loads(name.with_suffix(".json").read_text()) for name in names]
    states = [load_file(name.with_suffix(".safetensors")) for name in names]
    preds = predictions(weighted)
    whole = evaluate(preds, bootstrap=0)
    assert found[0] == found[1]
    assert found[0]["n"] == 1001
    assert found[0]["sent"] == ["torch.float64", "torch.int64", "torch.float64", "torch.float64"]
    for name, value in found[0]["values"].items():
        if name == "ada_ece":
            assert abs(value - whole.values[name]) <= found[0]["bounds"][name] + 1e-12
        else:
            assert value == pytest.approx(whole.values[name], rel=1e-12), name
    monkeypatch.setattr(sketch, "KEPT_SAMPLES", kept)
    merged = accumulated(part_of(preds, 0)).merge(accumulated(part_of(preds, 1))).state_dict()
    for state in states:
        assert state.keys() == merged.keys()
        for name, part in state.items():
            # Kept samples have no order.
            here, there = (
                (part.sort().values, merged[name].sort().values)
                if part.ndim == 1 and "sketch" in name
                else (part, merged[name])
            )
            torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


def test_a_few_samples_stay_exact_through_an_all_reduce(results):
    found = json.loads(Path(results, f"0-False-{2**17}.json").read_text())
    assert found["bounds"]["ada_ece"] <= 1e-11
    assert "debiased_ece" in found["values"]


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
