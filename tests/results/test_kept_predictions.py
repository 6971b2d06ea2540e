import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from focalcal.predictions import Predictions
from focalcal.sweeps.finished import FinishedRun, finished_run, read_index, write_index
from focalcal.sweeps.plan import PlannedRun
from focalcal.training.run_directory import open_run
from kept_predictions import MOST_IN_ALL, check_in_all, keep, printed, size

pytestmark = pytest.mark.slow


def _run(comparison: Path, loss: str = "fl-3", seed: int = 0) -> FinishedRun:
    path = comparison / loss / f"seed-{seed}"
    return finished_run(PlannedRun(loss, seed, path, open_run(path).recipe))


def _changed(run: FinishedRun, folder: Path, **splits: Predictions) -> FinishedRun:
    """A copy of a run with other predictions for some splits."""
    shutil.copytree(run.folder, folder / "predictions")
    for split, preds in splits.items():
        preds.save(folder / "predictions" / f"{split}.safetensors")
    return replace(run, folder=folder / "predictions")


def _types(folder: Path) -> dict[str, torch.dtype]:
    return {file.stem: load_file(file)["logits"].dtype for file in sorted(folder.glob("*.safetensors"))}


def test_16_bits_are_used_where_and_only_where_no_printed_figure_changes(cifar, tmp_path):
    for loss in ("cross-entropy", "fl-3"):
        run = _run(cifar, loss)
        (kept,) = keep([run], tmp_path / loss)
        expected, found = printed(run, "last"), printed(kept, "last")
        assert found == {key: expected[key] for key in found}
        for split, dtype in _types(kept.folder).items():
            if dtype == torch.float32:
                file = kept.file(split, "last")
                Predictions.load(file).save(file, compact="float16")
                assert any(expected[key] != text for key, text in printed(kept, "last").items())


def test_a_right_answer_that_16_bits_would_make_wrong_needs_32(cifar, tmp_path):
    """The two largest logits are 1e-9 apart, which float16 cannot tell from 0."""
    test = Predictions.from_logits(torch.tensor([[-1e-9, 0.0] + [-5.0] * 8, [3.0] + [0.0] * 9] * 10), [1, 0] * 10)
    (kept,) = keep([_changed(_run(cifar), tmp_path / "run", test=test)], tmp_path / "kept")
    assert _types(kept.folder)["test"] == torch.float32


def test_logits_that_16_bits_hold_exactly_need_no_more(cifar, tmp_path):
    logits = torch.randint(-8, 9, (60, 10), generator=torch.Generator().manual_seed(0)) / 4
    preds = Predictions.from_logits(logits, torch.arange(60) % 10)
    run = _changed(_run(cifar), tmp_path / "run", **dict.fromkeys(("val", "test", "svhn", "cifar10_c"), preds))
    (kept,) = keep([run], tmp_path / "kept")
    assert set(_types(kept.folder).values()) == {torch.float16}


def test_the_runs_are_found_again(cifar, digits, tmp_path):
    runs = [_run(cifar), _run(digits, "cross-entropy", 1)]
    kept = keep(runs, tmp_path)
    write_index(tmp_path, kept)
    assert read_index(tmp_path) == kept
    assert [run.name for run in kept] == ["fl-3-seed-0", "cross-entropy-seed-1"]
    assert kept[0].facts() == runs[0].facts()


def test_two_runs_of_one_name_are_refused_before_one_overwrites_the_other(cifar, digits, tmp_path):
    with pytest.raises(ValueError, match=r"^Two runs are called fl-3-seed-0: keep each in a folder of its own\.$"):
        keep([_run(cifar), _run(digits)], tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_run_that_is_too_large_is_refused_until_its_other_sets_are_left_out(cifar, tmp_path):
    logits = torch.randint(-8, 9, (30_000, 10), generator=torch.Generator().manual_seed(0)) / 4
    large = Predictions.from_logits(logits, torch.arange(30_000) % 10)
    run = _changed(_run(cifar), tmp_path / "run", test=large, svhn=large)
    sentence = r"^fl-3-seed-0 takes 1\.\d\d MB, more than 1 MB per run: leave .* out with --without-ood fl-3\.$"
    with pytest.raises(ValueError, match=sentence):
        keep([run], tmp_path / "refused")
    (kept,) = keep([run], tmp_path / "kept", without_ood=["fl-3"])
    assert sorted(_types(kept.folder)) == ["test", "val"]
    assert 630_000 < size(kept.folder) < 640_000


def test_a_last_epoch_that_makes_a_run_too_large_is_left_out(digits, tmp_path):
    logits = torch.randint(-8, 9, (30_000, 10), generator=torch.Generator().manual_seed(0)) / 4
    large = Predictions.from_logits(logits, torch.arange(30_000) % 10)
    run = replace(_changed(_run(digits), tmp_path / "run", test=large), epochs={"best": 1, "last": 2})
    large.save(run.folder / "last" / "test.safetensors")
    (kept,) = keep([run], tmp_path / "kept")
    assert kept.selections == ("best",)
    assert not (kept.folder / "last").exists()


def test_all_predictions_together_have_a_budget(tmp_path):
    for name, count in (("a", MOST_IN_ALL - 10), ("b", 10)):
        (tmp_path / name).mkdir()
        with open(tmp_path / name / "x.safetensors", "wb") as file:
            file.truncate(count)
    check_in_all([tmp_path / "a", tmp_path / "b", tmp_path / "nothing"])
    (tmp_path / "b" / "runs.json").write_text("1")
    with pytest.raises(ValueError, match=r"would take 15\.00 MB, more than 15\.00 MB: .* --without-ood LOSS"):
        check_in_all([tmp_path / "a", tmp_path / "b"])
