"""Samples that depend on each other within a cluster: pixels of an image, tokens of a sentence, records of a user."""

import numpy as np
import pytest
import torch

from focalcal.metrics import Accumulator, calibration_intervals, calibration_test, compare, evaluate
from focalcal.metrics.bootstrap.intervals import bootstrap
from focalcal.metrics.cluster_units import ClusterUnits
from focalcal.metrics.clusters import cluster_numbers
from focalcal.metrics.honest_intervals import HONEST_METRICS, samples_in_cells
from focalcal.metrics.independent_units import CellSamples
from focalcal.metrics.samples import confidence_samples
from focalcal.predictions import Predictions
from oracles import honest as oracle


def images(count=60, pixels=50, seed=0, temperature=0.6, clusters=True):
    """Every pixel of an image has the image's logits and label: so many pixels are no more than one."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    numbers = torch.arange(count).repeat_interleave(pixels) + 1000
    return Predictions.from_logits(
        (logits / temperature).repeat_interleave(pixels, 0),
        labels.repeat_interleave(pixels),
        clusters=numbers if clusters else None,
    )


def width(interval):
    return interval[1] - interval[0]


def test_an_interval_of_many_pixels_is_that_of_their_images():
    once, pixels, blind = images(pixels=1), images(), images(clusters=False)
    expected, found, narrow = (evaluate(each, bootstrap=300) for each in (once, pixels, blind))
    for name in ("ece", "ada_ece", "ks_error", "smooth_ece", "classwise_ece", "error", "nll"):
        assert found.values[name] == pytest.approx(expected.values[name], rel=0.02), name
        assert 0.6 * width(expected.intervals[name]) < width(found.intervals[name]), name
        assert width(found.intervals[name]) < 1.7 * width(expected.intervals[name]), name
        assert width(narrow.intervals[name]) < 0.7 * width(found.intervals[name]), name
    for name in HONEST_METRICS:
        low, high = found.intervals[name]
        assert low <= found.values[name] <= high, name


def test_pixels_of_a_calibrated_model_are_not_called_miscalibrated():
    """Image by image the model is right as often as it says; 50 copies of each make 3,000 samples of 60."""
    p_values = [calibration_test(images(seed=seed, temperature=1.0)).p_value for seed in range(12)]
    blind = [calibration_test(images(seed=seed, temperature=1.0, clusters=False)).p_value for seed in range(12)]
    assert sum(p <= 0.05 for p in p_values) <= 2
    assert sum(p <= 0.05 for p in blind) == 12


def test_clusters_of_one_sample_are_no_clusters():
    plain = images(200, pixels=1, clusters=False)
    own = Predictions.from_logits(plain.values, plain.labels, clusters=torch.arange(200))
    assert evaluate(own, bootstrap=20).to_dict() == evaluate(plain, bootstrap=20).to_dict()


def test_one_cluster_has_no_interval():
    found = evaluate(images(1, pixels=30), bootstrap=20)
    assert all(np.isnan(ends).all() for ends in found.intervals.values())


def test_more_clusters_than_groups_are_dealt_as_wholes():
    found = bootstrap(images(1500, pixels=3), metrics=["error"], bootstrap=200)
    once = bootstrap(images(1500, pixels=1), metrics=["error"], bootstrap=200)
    assert 0.8 < width(found.intervals["error"]) / width(once.intervals["error"]) < 1.25


def test_copies_do_not_make_a_difference_significant():
    """Two models of 40 images; 100 copies of every image make no more of a difference than one."""
    a, b = images(40, 100, temperature=1.0), images(40, 100, temperature=0.9)
    once = compare(images(40, 1, temperature=1.0), images(40, 1, temperature=0.9), metrics=["nll"], bootstrap=200)
    found = compare(a, b, metrics=["nll", "error"], bootstrap=200)
    assert found["nll"].p_value == pytest.approx(once["nll"].p_value, abs=0.08)
    assert found["error"].p_value == 1


def test_a_file_in_blocks_knows_its_clusters(tmp_path, monkeypatch):
    module = __import__("focalcal.metrics.evaluating", fromlist=["evaluate"])
    preds = images(80, 40)
    preds.save(tmp_path / "pixels.safetensors")
    expected = evaluate(preds, bootstrap=300)
    monkeypatch.setattr(module, "READ_WHOLE_BYTES", 0)
    found = evaluate(tmp_path / "pixels.safetensors", bootstrap=300)
    for name in ("ece", "mce"):
        assert found.intervals[name] == pytest.approx(expected.intervals[name], abs=0.02), name
    for name in ("ada_ece", "ks_error", "smooth_ece", "error", "nll"):
        assert width(found.intervals[name]) == pytest.approx(width(expected.intervals[name]), rel=0.25), name
        assert found.intervals[name][0] <= found.values[name] <= found.intervals[name][1], name
    assert found.calibration_test.p_value == pytest.approx(expected.calibration_test.p_value, abs=0.05)
    assert "classwise_ece" not in found.intervals
    assert any("clusters" in note for note in found.notes)


def in_batches(preds, rows=400, **options):
    found = Accumulator(preds.num_classes, **options)
    for block in preds.blocks(rows):
        found.update(logits=block.values, labels=block.labels, weights=block.weights, clusters=block.clusters)
    return found


def test_an_accumulator_counts_clusters():
    preds = images(80, 40)
    expected, found = evaluate(preds, bootstrap=300), in_batches(preds).compute()
    for name in ("ece", "mce", "error", "nll", "brier", "signed_gap"):
        assert found.intervals[name] == pytest.approx(expected.intervals[name], abs=0.07), name
    for name in ("ece", "ada_ece", "ks_error", "smooth_ece", "error", "nll"):
        assert width(found.intervals[name]) == pytest.approx(width(expected.intervals[name]), rel=0.25), name
        assert found.intervals[name][0] <= found.values[name] <= found.intervals[name][1], name
    assert found.calibration_test.p_value == pytest.approx(expected.calibration_test.p_value, abs=0.05)
    assert "classwise_ece" not in found.intervals
    assert any("those of 80 clusters." in note for note in found.notes)


def test_parts_of_clusters_merge_and_are_kept():
    preds = images(80, 40)
    whole = in_batches(preds).compute().to_dict()
    cut = 40 * 37 + 11  # inside a cluster
    first, second = (preds.select(range(*ends)) for ends in ((0, cut), (cut, len(preds))))
    joined = in_batches(first).merge(in_batches(second, first_row=cut))
    again = Accumulator(4)
    again.load_state_dict(joined.state_dict())
    for found in (joined.compute().to_dict(), again.compute().to_dict()):
        for name, ends in whole["intervals"].items():
            assert found["intervals"][name] == pytest.approx(ends, rel=1e-9, abs=1e-12), name
        assert found["calibration_test"]["p_value"] == whole["calibration_test"]["p_value"]
        assert found["notes"] == whole["notes"]


def test_weights_of_clusters_may_grow_from_batch_to_batch():
    plain = images(60, 20)
    weights = torch.ones(len(plain), dtype=torch.float64)
    weights[600:] = 5.0
    preds = Predictions.from_logits(plain.values, plain.labels, clusters=plain.clusters, weights=weights)
    steps, once = (in_batches(preds, rows).compute() for rows in (300, 1200))
    for name, ends in once.intervals.items():
        assert steps.intervals[name] == pytest.approx(ends, rel=1e-9, abs=1e-12), name
    expected = evaluate(preds, bootstrap=300)
    for name in ("ece", "error", "nll"):
        assert width(steps.intervals[name]) == pytest.approx(width(expected.intervals[name]), rel=0.3), name


def test_images_of_batches_are_their_own_clusters():
    """Also where an image has 512 pixels, as many as there are groups."""
    generator = torch.Generator().manual_seed(0)
    accumulator = Accumulator(4)
    for _ in range(5):
        logits = torch.randn(8, 4, 32, 16, generator=generator)
        labels = torch.randint(4, (8, 32, 16), generator=generator)
        labels[0, 0] = -100
        accumulator.update(logits=logits, labels=labels)
    found = accumulator.compute()
    assert found.n == 5 * (8 * 512 - 16)
    assert any("those of 40 clusters." in note for note in found.notes)
    assert 0 < width(found.intervals["error"]) < 0.02


def test_an_accumulator_refuses_a_mix_of_clusters_and_none():
    accumulator = Accumulator(4)
    accumulator.update(logits=torch.zeros(2, 4), labels=[0, 1], clusters=["a", "b"])
    with pytest.raises(ValueError, match="pass clusters= with all of them"):
        accumulator.update(logits=torch.zeros(2, 4), labels=[0, 1])
    other = Accumulator(4)
    other.update(logits=torch.zeros(2, 4), labels=[0, 1])
    with pytest.raises(ValueError, match="pass clusters= with all of them"):
        accumulator.merge(other)
    assert accumulator.samples == 2


def answers(count, size, seed=0, rate=None):
    """Answers of which each is right as often as it says, or all of a cluster are wrong at this rate."""
    rng = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(count), size)
    if rate is None:
        confidence = rng.uniform(0.5, 1, count * size)
        correct = rng.random(count * size) < confidence
    else:
        confidence = 1 - rate + rate / 2 * rng.random(count * size)
        correct = (rng.random(count) >= rate)[numbers]
    return Predictions.from_confidence(confidence, correct, clusters=numbers)


def test_clusters_whose_samples_are_independent_have_intervals_hardly_wider_than_samples():
    """Forty images with 200 answers each know more than 40 answers."""
    found = answers(40, 200)
    plain = Predictions.from_confidence(found.values[:, 1], found.labels)
    of_clusters, of_samples = calibration_intervals(found), calibration_intervals(plain)
    for name, ends in of_clusters.items():
        assert width(ends) < 2 * width(of_samples[name]), name
    assert width(of_clusters["ece"]) < 0.05


def test_errors_that_come_in_whole_clusters_are_allowed_for_though_none_is_seen():
    """In two of three such data sets all 40 clusters are right, which does not show that the model is miscalibrated."""
    rejected = missed = 0
    for seed in range(20):
        preds = answers(40, 30, seed, rate=0.01)
        truth = float((preds.values[:, 1] - 0.99).mean())
        low, high = calibration_intervals(preds)["ece"]
        missed += not low <= truth <= high
        rejected += calibration_test(preds).p_value <= 0.05
    assert (missed, rejected) == (0, 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_size_in_which_errors_come_is_that_of_its_definition(weighted):
    rng = np.random.default_rng(3)
    unit = rng.integers(0, 12, 150)
    weight = rng.exponential(size=150) if weighted else np.ones(150)
    confidence = rng.beta(4, 1, 150)
    correct = rng.random(150) < confidence
    units = ClusterUnits(CellSamples(np.zeros(150, dtype=np.int64), confidence, correct, weight, unit, 1))
    assert units.lump == pytest.approx(oracle.lump(confidence, correct.astype(float), weight, unit), rel=1e-12)


def test_the_size_in_which_errors_come_lies_between_a_sample_and_a_cluster():
    for preds, least, most in ((answers(60, 50, rate=0.1), 1 / 60, 1 / 60), (answers(60, 50), 1 / 3000, 3 / 3000)):
        samples = confidence_samples(preds)
        cells = samples_in_cells(samples, np.zeros(len(preds), dtype=np.int64), cluster_numbers(preds), 1)
        assert least * (1 - 1e-9) <= ClusterUnits(cells).lump <= most * (1 + 1e-9)


def test_few_clusters_are_said_to_be_few():
    few, many = images(12, 20), images(31, 20)
    for found in (evaluate(few, bootstrap=20), in_batches(few).compute(), compare(few, few, metrics=["nll"])):
        assert any("of 12 clusters, and rough, because these are fewer than 30." in note for note in found.notes)
    unpaired = compare(few, many, paired=False, metrics=["nll"], names=("jan", "feb"))
    assert [note.partition(":")[0] for note in unpaired.notes] == ["jan", "feb"]
    assert "rough" in unpaired.notes[0]
    assert "rough" not in unpaired.notes[1]
    assert "rough" in unpaired.to_markdown()


def test_few_clusters_have_wider_intervals_of_differences():
    """Student's, of 11 degrees of freedom, and no narrower than that of as many samples."""
    few, many = images(12, 30), images(400, 30, seed=1)
    found = compare(few, many, paired=False, metrics=["nll"])["nll"]
    once = compare(images(12, 1), images(400, 1, seed=1), paired=False, metrics=["nll"])["nll"]
    assert width(found.interval) > width(once.interval)
    assert found.p_value > once.p_value
