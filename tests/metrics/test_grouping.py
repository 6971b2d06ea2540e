"""Groups of predictions at hand: what each shows, which stand out, and what is refused."""

import json
import math

import numpy as np
import pytest
import torch

from focalcal.metrics import calibration_test, evaluate
from focalcal.metrics.bootstrap.differences import holm
from focalcal.metrics.grouping import calibration_p_value
from focalcal.metrics.honest_intervals import SampledGaps
from focalcal.metrics.samples import confidence_samples
from focalcal.predictions import Predictions

NAMES = ("north", "south", "west", "east")


def regional(n=1200, classes=3, seed=0, wrong=2.5, **parts):
    """Four regions, calibrated but for west, whose logits are too large by a factor."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    region = torch.randint(4, (n,), generator=generator)
    logits = torch.where((region == 2)[:, None], wrong * logits, logits)
    groups = {"region": [NAMES[code] for code in region.tolist()], "month": (region % 2 + 1).tolist()}
    return Predictions.from_logits(logits, labels, groups=groups, **parts)


def part_of(preds, name, column="region"):
    return preds.select(torch.tensor([text == name for text in preds.groups[column].texts()]))


def test_every_group_is_evaluated_as_if_it_were_alone():
    preds = regional(400)
    found = evaluate(preds, by="region", bootstrap=50)
    assert list(found.groups) == sorted(NAMES)
    assert sum(group.n for group in found.groups.values()) == found.n == 400
    for name in NAMES:
        alone = evaluate(part_of(preds, name), bootstrap=50)
        assert found.groups[name].to_dict() == alone.to_dict()
    assert replace_by(found) == evaluate(preds, bootstrap=50).to_dict()


def replace_by(evaluation):
    return {key: value for key, value in evaluation.to_dict().items() if key != "by"}


def test_the_group_that_is_off_is_the_worst_and_in_the_verdict():
    table = evaluate(regional(), by="region", bootstrap=20, metrics=["ece", "error", "signed_gap"]).by["region"]
    assert table.worst.name == "west"
    west = table.results["west"]
    assert west.calibration.is_significant
    assert west.gap.is_significant
    assert "west fails the test of calibration" in table.verdict
    assert "Worst: west (miscalibrated, confidence − accuracy above the rest" in table.verdict
    assert table.ordered()[0].name == "west"
    assert not any(table.results[name].calibration.is_significant for name in ("north", "south", "east"))
    assert not any(one.error.is_significant for one in table.results.values())


def test_good_groups_are_not_blamed_for_what_the_rest_is():
    """West is far off, so that the others differ from the rest, which holds west."""
    table = evaluate(regional(6000), by="region", bootstrap=0, metrics=["ece", "error", "signed_gap"]).by["region"]
    good = [table.results[name] for name in ("north", "south", "east")]
    assert all(one.gap.is_significant and not one.is_worse for one in good)
    assert all("confidence − accuracy nearer to 0 than the rest" in one.findings for one in good)
    assert "west is significantly further from 0 in mean confidence − accuracy than the rest" in table.verdict
    assert "east, north, south differ from the rest for the better" in table.verdict
    assert table.results["west"].is_worse
    assert table.ordered()[0].name == "west"
    content = table.to_dict()["groups"]["north"]
    assert not content["is_worse"]
    assert abs(content["tests"]["gap"]["value"]) < abs(content["tests"]["gap"]["difference"])


def test_a_low_error_is_no_reproach():
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(3000) % 3
    confidence = torch.where(group == 0, 0.6, 0.95).double()
    correct = torch.rand(3000, generator=generator, dtype=torch.float64) < confidence
    preds = Predictions.from_confidence(confidence, correct, groups={"region": group})
    table = evaluate(preds, by="region", bootstrap=0).by["region"]
    assert table.worst.name == "0"
    assert "0 is significantly higher in error than the rest" in table.verdict
    assert "1, 2 differ from the rest for the better" in table.verdict
    assert table.results["1"].findings == ("error below the rest",)


def test_p_values_are_those_of_the_test_with_holms_correction():
    preds = regional(600, wrong=1.2)
    results = evaluate(preds, by="region", metrics=["ece"], intervals=False).by["region"].results
    expected = [calibration_test(part_of(preds, name)).p_value for name in results]
    assert [one.calibration.p_value for one in results.values()] == pytest.approx(expected)
    assert [one.calibration.adjusted_p_value for one in results.values()] == pytest.approx(holm(expected))


def test_the_difference_is_from_all_other_samples():
    preds = regional(400)
    results = evaluate(preds, by="region", metrics=["error"], intervals=False).by["region"].results
    for name, one in results.items():
        inside = torch.tensor([text == name for text in preds.groups["region"].texts()])
        values = [evaluate(preds.select(rows), intervals=False).values for rows in (inside, ~inside)]
        assert one.gap.difference == pytest.approx(values[0]["signed_gap"] - values[1]["signed_gap"])
        assert one.error.difference == pytest.approx(values[0]["error"] - values[1]["error"])


def test_several_columns_are_not_crossed():
    found = evaluate(regional(200), by=["region", "month"], metrics=["ece"], bootstrap=0)
    assert set(found.by) == {"region", "month"}
    assert list(found.by["month"].groups) == ["1", "2"]
    assert list(found.groups)[-2:] == ["month=1", "month=2"]


def test_calibrated_groups_stand_out_no_more_often_than_they_may():
    stood_out = 0
    for seed in range(30):
        preds = regional(300, seed=seed, wrong=1.0)
        table = evaluate(preds, by="region", metrics=["ece"], intervals=False).by["region"]
        stood_out += table.worst is not None
    assert stood_out <= 6


def test_one_sample_is_shown_without_an_interval():
    preds = regional(100)
    groups = {"region": ["lonely", *preds.groups["region"].texts()[1:]]}
    found = evaluate(Predictions.from_logits(preds.values, preds.labels, groups=groups), by="region", bootstrap=20)
    lonely = found.by["region"].results["lonely"]
    assert lonely.evaluation.n == 1
    assert all(math.isnan(low) for low, _ in lonely.evaluation.intervals.values())
    assert all(math.isnan(test.p_value) for test in (lonely.gap, lonely.error, lonely.calibration))
    assert "1 group has fewer than 10 samples: shown, not tested." in found.by["region"].notes
    assert "lonely" in found.to_markdown()


def test_one_group_has_no_rest():
    preds = regional(60)
    found = evaluate(part_of(preds, "west"), by="region", metrics=["ece"], intervals=False).by["region"]
    assert math.isnan(found.results["west"].gap.p_value)
    assert "By region (1 group)" in found.verdict


@pytest.mark.slow
def test_ten_thousand_groups_are_cut_and_it_is_said():
    preds = regional(20_000, classes=2)
    groups = {"user": torch.arange(20_000) % 10_000}
    preds = Predictions.from_logits(preds.values, preds.labels, groups=groups)
    found = evaluate(preds, by="user", metrics=["ece", "error", "ada_ece"], bootstrap=0)
    table = found.by["user"]
    assert len(found.groups) == 10_000
    assert sum("ada_ece" in group.values for group in found.groups.values()) == 100
    assert found.groups["17"].values["error"] == evaluate(part_of(preds, "17", "user"), intervals=False)["error"]
    said = " ".join(table.sentences())
    assert "The table shows 40 of 10,000 groups" in said
    assert "Of 10,000 groups, 100 have every metric and intervals" in said
    assert "10,000 groups have fewer than 10 samples" in said
    assert "too few samples in each to test any" in said
    assert len(table.rows()[1]) == 40


def test_many_groups_can_still_be_significant():
    """4,000 draws tell no p-value below 1/4,001 apart, which is not enough for a thousand groups."""
    probs = torch.tensor([[0.9, 0.1]], dtype=torch.float64).expand(200, 2)
    poor = Predictions.from_probs(probs, torch.arange(200) % 2)
    units = SampledGaps(confidence_samples(poor), 15).binned
    assert calibration_p_value(units, 15, 0, groups=1000) * 1000 < 0.05


@pytest.mark.parametrize("kind", ["score", "two columns", "confidence"])
def test_scores_two_columns_and_confidences(kind):
    generator = np.random.default_rng(0)
    p = generator.random(800)
    region = np.where(np.arange(800) % 4 == 0, "a", "b")
    outcome = generator.random(800) < np.where(region == "a", p**3, p)
    groups = {"region": region}
    if kind == "score":
        preds = Predictions.from_probs(p, outcome, groups=groups)
    elif kind == "two columns":
        preds = Predictions.from_probs(np.column_stack([1 - p, p]), outcome.astype(int), groups=groups)
    else:
        preds = Predictions.from_confidence(p, outcome, groups=groups)
    table = evaluate(preds, by="region", bootstrap=20).by["region"]
    assert table.worst.name == "a"
    assert all(one.evaluation.of == preds.of for one in table.results.values())


def test_weights_and_soft_labels():
    preds = regional(400)
    weights = torch.ones(400, dtype=torch.float64)
    weights[[i for i, text in enumerate(preds.groups["region"].texts()) if text == "east"]] = 0
    weighted = Predictions.from_logits(preds.values, preds.labels, weights=weights, groups=dict(preds.groups))
    found = evaluate(weighted, by="region", metrics=["error", "ece"], bootstrap=0)
    assert "east" not in found.groups  # it weighs nothing
    assert found.groups["west"].values == evaluate(part_of(preds, "west"), metrics=["error", "ece"], bootstrap=0).values
    soft = Predictions.from_logits(preds.values, preds.probs(), groups=dict(preds.groups))
    assert set(evaluate(soft, by="region", bootstrap=0).groups) == set(NAMES)


def test_samples_of_one_cluster_count_as_one():
    """Every sample 30 times over: 30 times the samples show no more than the samples themselves."""
    preds = regional(120, wrong=1.6, seed=3)
    rows = torch.arange(120).repeat_interleave(30)
    copies = preds.select(rows)
    clustered = Predictions.from_logits(copies.values, copies.labels, groups=dict(copies.groups), clusters=rows)
    copied = evaluate(copies, by="region", metrics=["error"], intervals=False).by["region"].results["west"]
    as_one = evaluate(clustered, by="region", metrics=["error"], intervals=False).by["region"].results["west"]
    single = evaluate(preds, by="region", metrics=["error"], intervals=False).by["region"].results["west"]
    assert copied.gap.p_value < 1e-6
    assert as_one.gap.p_value == pytest.approx(single.gap.p_value, abs=0.1)
    assert as_one.gap.difference == pytest.approx(single.gap.difference)


def test_json_and_markdown():
    found = evaluate(regional(300), by="region", bootstrap=20)
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))["by"]["region"]
    assert content["worst"] == "west"
    assert content["groups"]["west"]["tests"]["calibration"]["significant"]
    assert content["groups"]["west"]["values"] == found.groups["west"].to_dict()["values"]
    assert "| region | finding | n | error |" in found.to_markdown()
    assert "By region (4 groups)" in repr(found)


def test_bad_input_is_one_sentence():
    preds = regional(50)
    with pytest.raises(ValueError, match="There is no column of groups 'regoin'; did you mean 'region'"):
        evaluate(preds, by="regoin")
    plain = Predictions.from_logits(preds.values, preds.labels)
    with pytest.raises(ValueError, match=r"'region'; these predictions have none\. Give groups="):
        evaluate(plain, by="region")
    with pytest.raises(ValueError, match="groups 'region' have 3 entries for 50 samples"):
        Predictions.from_logits(preds.values, preds.labels, groups={"region": ["a", "b", "c"]})


def test_groups_that_are_the_labels_are_pointed_out():
    rng = np.random.default_rng(0)
    score = rng.random(400)
    happened = rng.random(400) < score
    groups = {"truth": np.where(happened, "yes", "no"), "half": np.where(score < 0.5, "low", "high")}
    preds = Predictions.from_probs(score, happened, groups=groups)
    found = evaluate(preds, by=["truth", "half"], metrics=["ece"])
    assert next(note for note in found.notes if "are the labels" in note).startswith("The groups of truth are")
    assert not any("half" in note for note in found.notes)


def test_the_number_of_clusters_is_told():
    preds = Predictions.from_probs(np.full(40, 0.5), np.arange(40) % 2, clusters=np.arange(40) // 4)
    for intervals in (True, False):  # the test of calibration counts them, too
        assert "those of 10 clusters, and rough" in evaluate(preds, metrics=["ece"], intervals=intervals).notes[0]
