"""Our metrics inside the real torchmetrics."""

import pickle

import pytest
import torch
from torch import nn
from torchmetrics import MetricCollection

import focalcal as fc
from focalcal.integrations.torchmetrics import CalibrationError, CalibrationMetric, CalibrationMetrics

CLASSES = 6


def outputs(n=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, CLASSES, generator=generator) * 3
    return logits, (logits + torch.randn(n, CLASSES, generator=generator) * 3).argmax(1)


def updated(metric, *data, batch=64):
    for start in range(0, len(data[0]), batch):
        metric.update(*(part[start : start + batch] for part in data))
    return metric


def expected(logits, labels, **options):
    preds = fc.Predictions.from_logits(logits, labels, **options)
    return {**fc.evaluate(preds, intervals=False).values, "scaled_nll": fc.metrics.nll_split(preds).refinement}


def test_every_metric_is_that_of_evaluate():
    logits, labels = outputs()
    found, wanted = (
        updated(CalibrationMetrics(CLASSES, logits=True), logits, labels).compute(),
        expected(logits, labels),
    )
    assert {"error", "nll", "ece", "ada_ece", "classwise_ece", "smooth_ece", "scaled_nll"} < set(found)
    for name in set(found) - {"temperature"}:
        assert float(found[name]) == pytest.approx(wanted[name], abs=1e-4), name


def test_probabilities_are_probabilities():
    logits, labels = outputs()
    by_logits, by_probs = (CalibrationMetrics(CLASSES, logits=kind) for kind in (True, False))
    updated(by_logits, logits.double(), labels)
    updated(by_probs, logits.double().softmax(1), labels)
    for name, value in by_logits.compute().items():
        assert float(by_probs.compute()[name]) == pytest.approx(float(value), abs=1e-5), name


def test_what_was_given_is_never_guessed():
    with pytest.raises(TypeError, match="logits"):
        CalibrationMetrics(CLASSES)
    with pytest.raises(TypeError, match=r"^logits must be True \(logits\) or False \(probabilities\), got None\.$"):
        CalibrationMetrics(CLASSES, logits=None)
    logits, labels = outputs(10)
    with pytest.raises(ValueError, match="probabilities"):
        CalibrationMetrics(CLASSES, logits=False).update(logits, labels)


CONVERSIONS = {
    "as a part": lambda metric: nn.ModuleDict({"metric": metric}).half()["metric"],
    "to": lambda metric: metric.to(torch.float16),
    "bfloat16": lambda metric: metric.bfloat16(),
    "set_dtype": lambda metric: metric.set_dtype("torch.HalfTensor"),
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_sums_survive_conversion_to_half(convert):
    logits, labels = outputs()
    metric, plain = (CalibrationMetrics(CLASSES, logits=True) for _ in range(2))
    updated(metric, logits[:100], labels[:100])
    converted = convert(metric)
    updated(converted, logits[100:], labels[100:])
    updated(updated(plain, logits[:100], labels[:100]), logits[100:], labels[100:])
    states = converted.metric_state
    assert {str(state.dtype) for state in states.values()} == {"torch.int64", "torch.float64"}
    assert all(torch.equal(states[name], state) for name, state in plain.metric_state.items())
    converted.reset()
    assert converted.sums.dtype == torch.float64


def test_half_precision_outputs_are_raised():
    logits, labels = outputs()
    half = updated(CalibrationMetrics(CLASSES, logits=True), logits.half(), labels).compute()
    single = updated(CalibrationMetrics(CLASSES, logits=True), logits.half().float(), labels).compute()
    assert half == single


def test_forward_gives_the_batch_and_adds_it():
    logits, labels = outputs()
    metric = CalibrationError(CLASSES, logits=True)
    first = metric(logits[:100], labels[:100])
    assert float(first) == pytest.approx(expected(logits[:100], labels[:100])["ece"], abs=1e-6)
    metric(logits[100:], labels[100:])
    assert float(metric.compute()) == pytest.approx(expected(logits, labels)["ece"], abs=1e-6)


def test_merging_states():
    logits, labels = outputs()
    one, other = (CalibrationMetrics(CLASSES, logits=True) for _ in range(2))
    updated(one, logits[:120], labels[:120])
    updated(other, logits[120:], labels[120:])
    one.merge_state(other)
    whole = updated(CalibrationMetrics(CLASSES, logits=True), logits, labels).compute()
    for name, value in one.compute().items():
        torch.testing.assert_close(value, whole[name])


def test_a_collection_updates_one_state():
    logits, labels = outputs()
    collection = MetricCollection(
        {
            "all": CalibrationMetrics(CLASSES, logits=True, metrics=["nll", "accuracy"]),
            "ece": CalibrationError(CLASSES, logits=True),
            "mce": CalibrationError(CLASSES, logits=True, norm="max"),
            "scaled_nll": CalibrationMetric("scaled_nll", CLASSES, logits=True),
        },
        prefix="val/",
    )
    updated(collection, logits, labels)
    assert list(collection.compute_groups.values()) == [["all", "ece", "mce", "scaled_nll"]]
    found, wanted = collection.compute(), expected(logits, labels)
    assert found.keys() == {"val/nll", "val/accuracy", "val/ece", "val/mce", "val/scaled_nll"}
    for name, value in found.items():
        assert float(value) == pytest.approx(wanted[name.removeprefix("val/")], abs=1e-5)
    collection.reset()
    assert int(collection["ece"].counts.sum()) == 0


def test_pickling():
    logits, labels = outputs()
    metric = updated(CalibrationMetrics(CLASSES, logits=True), logits[:100], labels[:100])
    copied = pickle.loads(pickle.dumps(metric))
    updated(metric, logits[100:], labels[100:])
    updated(copied, logits[100:], labels[100:])
    assert copied.compute() == metric.compute()


def test_a_state_dict_resumes():
    logits, labels = outputs()
    metric, resumed = (CalibrationError(CLASSES, logits=True) for _ in range(2))
    for each in (metric, resumed):
        each.persistent(True)
    updated(metric, logits, labels)
    resumed.load_state_dict(metric.state_dict())
    resumed.update(logits[:1], labels[:1])
    assert int(resumed.counts[0]) == 301


def test_weights_images_and_ignored_positions():
    logits, labels = torch.randn(4, CLASSES, 5, 3), torch.randint(CLASSES, (4, 5, 3))
    labels[:, 0] = 255
    weights = torch.rand(4, 5, 3)
    metric = CalibrationMetrics(CLASSES, logits=True, ignore_index=255, metrics=["nll", "ece"])
    metric.update(logits, labels, weights=weights)
    wanted = expected(logits, labels, weights=weights, ignore_index=255)
    for name, value in metric.compute().items():
        assert float(value) == pytest.approx(wanted[name], abs=1e-6)


def test_one_column_is_measured_as_a_score():
    logit = torch.randn(50)
    labels = (torch.rand(50) < logit.sigmoid()).long()
    metric = updated(CalibrationMetrics(2, logits=True), logit, labels, batch=16)
    found, wanted = metric.compute(), expected(logit, labels)
    assert "confident_accuracy" not in found
    for name in ("ece", "brier", "nll", "accuracy", "classwise_ece", "scaled_nll"):
        assert float(found[name]) == pytest.approx(wanted[name], abs=1e-5), name
    pairs = torch.stack([torch.zeros(50), logit], 1)
    assert float(CalibrationError(2, logits=True)(pairs, labels)) == pytest.approx(
        expected(pairs, labels)["ece"], abs=1e-6
    )
    metric.update(pairs, labels)
    with pytest.raises(ValueError, match="always pass one column, or always two"):
        metric.compute()
    with pytest.raises(ValueError, match="confident_accuracy cannot be computed"):
        CalibrationMetric("confident_accuracy", 2, logits=True).update(logit, labels)


def test_a_collection_knows_that_it_measures_a_score():
    logit, labels = torch.randn(50), torch.randint(2, (50,))
    single, everything = CalibrationError(2, logits=True), CalibrationMetrics(2, logits=True)
    collection = MetricCollection({"a": single, "b": everything})
    updated(collection, logit, labels, batch=16)
    assert len(collection.compute_groups) == 1
    found = collection.compute()
    assert "confident_accuracy" not in found
    assert float(found["brier"]) == pytest.approx(expected(logit, labels)["brier"], abs=1e-6)


def test_class_probabilities():
    logits, target = torch.randn(50, 2), torch.full((50, 2), 0.5)
    soft = CalibrationMetric("nll", 2, logits=True)
    soft.update(logits, target)
    assert float(soft.compute()) == pytest.approx(expected(logits, target)["nll"], abs=1e-6)


def test_pictures():
    logits, labels = outputs()
    metric = updated(CalibrationError(CLASSES, logits=True), logits, labels)
    _, axis = metric.plot()
    assert axis.get_ylim()[1] >= 1
    everything = updated(CalibrationMetrics(CLASSES, logits=True, metrics=["ece", "nll"]), logits, labels)
    _, axis = everything.plot([everything.compute(), everything.compute()])
    assert {line.get_label() for line in axis.get_lines()} >= {"ece", "nll"}


def test_which_values_are_better():
    better = {name: CalibrationMetric(name, CLASSES, logits=True).higher_is_better for name in ("ece", "accuracy")}
    assert better == {"ece": False, "accuracy": True}
    assert CalibrationMetric("scaled_nll", CLASSES, logits=True).higher_is_better is False
    assert CalibrationMetric("temperature", CLASSES, logits=True).higher_is_better is None
    assert CalibrationMetric("nll", CLASSES, logits=True).plot_upper_bound is None


def test_refusals():
    with pytest.raises(ValueError, match="There is no metric 'ecs'; did you mean 'ece'"):
        CalibrationMetric("ecs", CLASSES, logits=True)
    with pytest.raises(ValueError, match=r"norm must be 'l1' \(ECE\) or 'max' \(MCE\), got 'l2'"):
        CalibrationError(CLASSES, logits=True, norm="l2")
    with pytest.raises(ValueError, match="num_classes is 1; it must be an integer of at least 2"):
        CalibrationError(1, logits=True)
    metric = CalibrationError(CLASSES, logits=True)
    with pytest.raises(ValueError, match="The outputs have 3 classes, and num_classes is 6"):
        metric.update(torch.randn(4, 3), torch.zeros(4).long())
    assert int(metric.counts.sum()) == 0
