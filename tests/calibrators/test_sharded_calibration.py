import resource

import fsspec
import pytest
import torch

from focalcal.calibrators import TemperatureScaling, calibrate_shards, fit_temperature_on_shards
from focalcal.calibrators.base import CalibrationWarning
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels


def make(rows=2000, classes=5, dtype=torch.float32, **options):
    logits, labels = logits_and_labels(rows, classes, sharpness=2.5)
    return Predictions.from_logits(logits.to(dtype), labels, **options)


def save_parts(preds, folder, parts, ending="npz"):
    folder.mkdir(exist_ok=True)
    size = len(preds) // parts
    for part in range(parts):
        preds.select(list(range(part * size, part * size + size))).save(folder / f"{part}.{ending}")
    return str(folder / f"*.{ending}")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_temperature_of_one_process(tmp_path, weighted, dtype):
    whole = make(dtype=dtype, weights=torch.arange(2000) % 3 * 0.7 if weighted else None, split="val")
    pattern = save_parts(whole, tmp_path / "val", 4)
    one = TemperatureScaling().fit(whole)
    found = fit_temperature_on_shards(pattern, workers=1)
    assert found.temperature_ == pytest.approx(one.temperature_, rel=1e-9)
    assert found.record_.split == "val"
    assert found.record_.samples == int((whole.weights > 0).sum() if weighted else 2000)
    for name in ("nll_before", "nll_after", "ece_before", "ece_after"):
        assert getattr(found.record_, name) == pytest.approx(getattr(one.record_, name), rel=1e-6)


def test_soft_labels_and_processes(tmp_path):
    whole = make(400)
    soft = Predictions.from_logits(whole.values, torch.nn.functional.one_hot(whole.labels, 5) * 0.8 + 0.04)
    pattern = save_parts(soft, tmp_path / "val", 5)
    here, there = (fit_temperature_on_shards(pattern, workers=workers).temperature_ for workers in (1, 2))
    assert here == there
    assert here == pytest.approx(TemperatureScaling().fit(soft).temperature_, rel=1e-9)


def test_bounds_and_bad_input(tmp_path):
    right = Predictions.from_logits([[4.0, 0.0]] * 8, [0] * 8)
    pattern = save_parts(right, tmp_path / "a", 2)
    with pytest.warns(CalibrationWarning, match="lower bound"):
        assert fit_temperature_on_shards(pattern, workers=1).temperature_ == pytest.approx(1e-4)
    flat = Predictions.from_logits([[1.0, 1.0]] * 8, [0, 1] * 4)
    with pytest.warns(CalibrationWarning, match="upper bound"):
        fit_temperature_on_shards(save_parts(flat, tmp_path / "b", 2), workers=1)
    zeros = Predictions.from_probs([[1.0, 0.0], [0.5, 0.5]] * 4, [0, 1] * 4)
    with pytest.raises(ValueError, match="probabilities that are exactly 0"):
        fit_temperature_on_shards(save_parts(zeros, tmp_path / "c", 2), workers=1)
    with pytest.raises(ValueError, match="has split 'test'"):
        fit_temperature_on_shards(save_parts(make(40, split="test"), tmp_path / "d", 2), workers=1)


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv", "safetensors"])
def test_shards_are_calibrated_file_by_file(tmp_path, ending):
    whole = make(300)
    scaler = TemperatureScaling().fit(whole)
    pattern = save_parts(whole, tmp_path / "new", 3, ending)
    first = calibrate_shards(scaler, pattern, tmp_path / "out", workers=1)
    assert (len(first.written), first.finished, first.failures) == (3, (), ())
    found = Predictions.load(tmp_path / "out" / f"*.{ending}")
    assert torch.allclose(found.values, scaler.transform(whole).values, rtol=1e-6)
    assert found.provenance["calibrated_by"].startswith("temperature (temperature")
    # A call that was interrupted: one file is missing, the others are not touched.
    kept = (tmp_path / "out" / f"0.{ending}").stat().st_mtime_ns
    (tmp_path / "out" / f"1.{ending}").unlink()
    again = calibrate_shards(scaler, pattern, tmp_path / "out", workers=2)
    assert (again.written, again.finished) == ((f"1.{ending}",), (f"0.{ending}", f"2.{ending}"))
    assert (tmp_path / "out" / f"0.{ending}").stat().st_mtime_ns == kept


def test_nothing_is_mixed_up_or_half_written(tmp_path):
    whole = make(200)
    pattern = save_parts(whole, tmp_path / "new", 2)
    scaler = TemperatureScaling().fit(whole)
    with pytest.raises(ValueError, match="is the folder that is read"):
        calibrate_shards(scaler, pattern, tmp_path / "new", workers=1)
    calibrate_shards(scaler, pattern, tmp_path / "out", workers=1)
    other = TemperatureScaling(objective="ece").fit(whole)
    with pytest.raises(ValueError, match="holds predictions of another calibrator"):
        calibrate_shards(other, pattern, tmp_path / "out", workers=1)
    (tmp_path / "new" / "9.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"9\.npz"):
        calibrate_shards(scaler, pattern, tmp_path / "out2", workers=1)
    skipped = calibrate_shards(scaler, pattern, tmp_path / "out2", workers=1, skip_bad_shards=True)
    assert (len(skipped.written), len(skipped.failures)) == (2, 1)
    assert sorted(path.name for path in (tmp_path / "out2").iterdir()) == ["0.npz", "1.npz", "calibrator.json"]
    save_parts(whole, tmp_path / "more", 2)
    with pytest.raises(ValueError, match=r"Two shards are called 0\.npz"):
        calibrate_shards(scaler, [str(tmp_path / "more" / "*.npz"), str(tmp_path / "new" / "[01].npz")], tmp_path / "x")


def test_remote_storage_and_missing_labels(tmp_path):
    whole = make(100)
    unlabelled = Predictions.from_logits(whole.values)
    scaler = TemperatureScaling().fit(whole)
    storage = fsspec.filesystem("memory")
    try:
        unlabelled.save(tmp_path / "a.npz")
        storage.put_file(str(tmp_path / "a.npz"), "/new/a.npz")
        done = calibrate_shards(scaler, "memory://new/*.npz", "memory://out", workers=1)
        assert done.written == ("a.npz",)
        found = Predictions.load("memory://out/a.npz")
        assert torch.equal(found.values, scaler.transform(unlabelled).values)
        assert calibrate_shards(scaler, "memory://new/*.npz", "memory://out", workers=1).finished == ("a.npz",)
    finally:
        storage.store.clear()
        storage.pseudo_dirs[:] = [""]


def test_only_what_cannot_be_read_is_skipped(tmp_path):
    whole = make(200)
    pattern = save_parts(whole, tmp_path / "new", 2)
    other = TemperatureScaling().fit(Predictions.from_logits([[4.0, 0.0]] * 4, [0, 0, 0, 1]))
    with pytest.raises(ValueError, match=r"was fitted on 2 classes"):
        calibrate_shards(other, pattern, tmp_path / "out", workers=1, skip_bad_shards=True)
    assert not (tmp_path / "out").exists()
    scaler = TemperatureScaling().fit(whole)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"0\.npz.*: File too large"):
            calibrate_shards(scaler, pattern, tmp_path / "out", workers=1, skip_bad_shards=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["calibrator.json"]
    done = calibrate_shards(scaler, pattern, tmp_path / "out", workers=1)
    assert len(done.written) == 2
