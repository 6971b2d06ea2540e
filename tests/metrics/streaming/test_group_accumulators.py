"""Groups of streamed data: the same as at hand, in parts, saved and restored, in bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from focalcal.metrics import evaluate
from focalcal.metrics import evaluating as evaluating_module
from focalcal.metrics.streaming import group_accumulators
from focalcal.metrics.streaming.accumulator import Accumulator, GroupAccumulator
from focalcal.predictions import Predictions


def predictions(n=600, classes=4, weighted=False):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    region = torch.randint(3, (n,), generator=generator)
    logits = torch.where((region == 2)[:, None], 3 * logits, logits)
    weights = torch.rand(n, generator=generator, dtype=torch.float64) * 1e200 if weighted else None
    names = ["north", "south", "west"]
    groups = {"region": [names[code] for code in region.tolist()], "month": (region % 2 + 1).tolist()}
    return Predictions.from_logits(logits, labels, weights=weights, groups=groups)


def accumulated(preds, rows=97, first_row=0, by=("region", "month")):
    accumulator = Accumulator(preds.num_classes, by=by, first_row=first_row)
    for block in preds.blocks(rows):
        accumulator.update(
            logits=block.values,
            labels=block.labels,
            weights=block.weights,
            groups={name: column.texts() for name, column in block.groups.items()},
        )
    return accumulator


@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_has_the_groups_of_predictions_at_hand(weighted):
    preds = predictions(weighted=weighted)
    expected, found = evaluate(preds, by=["region", "month"], bootstrap=200), accumulated(preds).compute()
    assert list(found.groups) == list(expected.groups)
    for name, group in expected.groups.items():
        streamed = found.groups[name]
        assert streamed.n == group.n
        for metric, value in streamed.values.items():
            assert value == pytest.approx(group.values[metric], abs=1e-9), (name, metric)
        assert set(streamed.intervals) == {metric for metric in group.intervals if metric in streamed.values}
        assert streamed.intervals["ece"][1] == pytest.approx(group.intervals["ece"][1], abs=1e-9)
        (low, high), (other_low, other_high) = streamed.intervals["nll"], group.intervals["nll"]
        assert (high - low) / (other_high - other_low) == pytest.approx(1, abs=0.25)
    for column, table in expected.by.items():
        for name, one in table.results.items():
            streamed = found.by[column].results[name]
            for test in ("gap", "error", "calibration"):
                assert getattr(streamed, test).p_value == pytest.approx(getattr(one, test).p_value, rel=1e-6, abs=1e-9)
    assert found.by["region"].worst.name == "west"


def test_parts_merged_give_what_the_whole_gives():
    preds = predictions()
    whole = accumulated(preds)
    parts = [preds.select(range(250)), preds.select(range(250, 600))]
    merged = accumulated(parts[0]).merge(accumulated(parts[1], first_row=250))
    assert as_text(merged) == as_text(whole)


def as_text(accumulator):
    return json.dumps(rounded(accumulator.compute().to_dict()))


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return round(value, 9) + 0.0 if isinstance(value, float) else value


def test_a_state_is_restored():
    whole = accumulated(predictions())
    restored = Accumulator(4, by=["region", "month"])
    restored.load_state_dict(whole.state_dict())
    assert as_text(restored) == as_text(whole)
    with pytest.raises(ValueError, match="The state has groups of region, month, this accumulator of month"):
        Accumulator(4, by="month").load_state_dict(whole.state_dict())


@pytest.mark.slow
def test_a_groups_state_is_small_however_many_samples_it_has():
    generator = torch.Generator().manual_seed(0)
    group = GroupAccumulator(10)
    for _ in range(3):
        logits = 2 * torch.randn(10_000, 10, generator=generator, dtype=torch.float64)
        labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
        group.update(logits=logits, labels=labels)
    size = sum(part.nbytes for part in group.state_dict().values())
    assert group.nbytes == pytest.approx(size, rel=0.01)
    assert size < 600_000
    found = group.compute()
    assert found.bounds["smooth_ece"] < 1e-3
    assert found.bounds["ada_ece"] < 1e-2
    assert found.values["ece"] < 0.02


def test_too_many_groups_for_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(group_accumulators, "MOST_BYTES", 100_000)
    accumulator = Accumulator(4, by="user")
    with pytest.raises(ValueError, match="groups of column 'user' take more than a gigabyte"):
        accumulator.update(logits=torch.zeros(50, 4), labels=[0] * 50, groups={"user": list(range(50))})


def test_a_large_file_is_grouped_in_blocks(tmp_path, monkeypatch):
    preds = predictions()
    preds.save(tmp_path / "test.parquet")
    expected = evaluate(preds, by="region", bootstrap=20)
    monkeypatch.setattr(evaluating_module, "READ_WHOLE_BYTES", 0)
    found = evaluate(tmp_path / "test.parquet", by="region", bootstrap=20)
    assert any("read in blocks" in note for note in found.notes)
    for name, group in expected.groups.items():
        assert found.groups[name].values["ece"] == pytest.approx(group.values["ece"])
    assert found.by["region"].worst.name == expected.by["region"].worst.name == "west"


def test_bad_batches_are_one_sentence():
    accumulator = Accumulator(4, by="region")
    with pytest.raises(ValueError, match="There is no column of groups 'region'"):
        accumulator.update(logits=torch.zeros(2, 4), labels=[0, 1])
    with pytest.raises(ValueError, match="have 3 entries for 2 samples"):
        accumulator.update(logits=torch.zeros(2, 4), labels=[0, 1], groups={"region": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="other columns of groups"):
        Accumulator(4).merge(accumulated(predictions(50)))


def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    preds = predictions()
    # The second process never sees the group "north" in its part.
    order = np.argsort(np.array(preds.groups["region"].texts()), kind="stable")
    half = order[:300] if rank == 0 else order[300:]
    found = accumulated(preds.select(torch.from_numpy(half.copy()))).all_reduce().compute()
    Path(folder, f"{rank}.json").write_text(json.dumps(rounded(found.to_dict())))
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_join_their_groups(tmp_path):
    started = [subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [process.wait(timeout=300) for process in started] == [0, 0]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    expected = evaluate(predictions(), by="region", bootstrap=0)
    found = first["by"]["region"]["groups"]
    assert {name: one["n"] for name, one in found.items()} == {k: v.n for k, v in expected.groups.items()}
    for name, group in expected.groups.items():
        assert found[name]["values"]["ece"] == pytest.approx(group.values["ece"], abs=1e-8)


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
