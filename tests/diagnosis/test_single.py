import dataclasses

import pytest
import torch

from diagnosis.conftest import severities
from focalcal.diagnosis import diagnose
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels, predictions


class TestKind:
    def test_probabilities_as_logits(self, examined):
        logits, labels = logits_and_labels()
        found = examined(Predictions.from_logits(logits.softmax(1), labels))
        assert found["probabilities_as_logits"].severity == "problem"
        assert found["probabilities_as_logits"].advice == "Read them with probs_key='logits'."

    def test_predictions_in_memory_are_constructed_not_read(self):
        logits, labels = logits_and_labels()
        (problem,) = diagnose(Predictions.from_logits(logits.softmax(1), labels)).problems
        assert problem.advice == "Construct them with Predictions.from_probs."

    def test_sigmoids_as_logits(self, examined):
        logits, labels = logits_and_labels()
        assert (
            severities(examined(Predictions.from_logits(logits.sigmoid(), labels)))["logits_between_0_and_1"]
            == "warning"
        )

    def test_one_probability_as_a_logit(self, examined):
        logits, labels = logits_and_labels(classes=2)
        found = examined(Predictions.from_logits(logits.softmax(1)[:, 1], labels))
        assert severities(found)["logits_between_0_and_1"] == "warning"

    def test_log_probabilities_are_fine(self, examined):
        logits, labels = logits_and_labels(20_000)
        found = examined(Predictions.from_logits(logits.log_softmax(1), labels))
        assert severities(found) == {"temperature": "info", "log_probabilities": "info", "ece_by_chance": "info"}


class TestPrecision:
    def test_probabilities_of_float16(self, examined):
        logits, labels = logits_and_labels(2000, sharpness=4.0)
        found = examined(None, probs=logits.softmax(1).half().numpy(), labels=labels.numpy())
        assert severities(found)["float16_probabilities"] == "warning"
        assert severities(found)["saturated_confidence"] == "warning"
        assert "0.00049" in found["float16_probabilities"].what

    def test_probabilities_of_bfloat16_saved_as_float32(self, examined):
        logits, labels = logits_and_labels(2000)
        probs = logits.softmax(1).bfloat16().float()
        found = examined(Predictions.from_probs(probs, labels, tolerance=0.1))
        assert severities(found)["bfloat16_probabilities"] == "warning"
        assert severities(found)["row_sums"] == "info"

    def test_logits_of_float16_lose_little(self, examined):
        logits, labels = logits_and_labels(20_000)
        found = examined(Predictions.from_logits(logits.half(), labels))
        assert severities(found) == {"float16_logits": "info", "temperature": "info", "ece_by_chance": "info"}

    def test_few_round_numbers_are_no_float16(self, examined):
        probs = torch.tensor([[0.75, 0.25], [0.5, 0.5]]).repeat(50, 1)
        found = examined(Predictions.from_probs(probs, torch.arange(100) % 2))
        assert not [name for name in found if "float16" in name]

    def test_overflow(self, examined):
        logits, labels = logits_and_labels(200)
        logits[3, 4] = 65504
        assert severities(examined(Predictions.from_logits(logits, labels)))["float16_overflow"] == "problem"

    def test_saturated_logits_are_only_an_info(self, examined):
        logits, labels = logits_and_labels(500, sharpness=10.0)
        assert severities(examined(Predictions.from_logits(logits, labels)))["saturated_confidence"] == "info"

    def test_label_of_probability_zero(self, examined):
        logits, labels = logits_and_labels(200)
        probs = logits.softmax(1)
        probs[5] = torch.eye(10)[(labels[5] + 1) % 10]
        found = examined(Predictions.from_probs(probs, labels))
        assert found["impossible_labels"].severity == "problem"
        assert found["impossible_labels"].what.startswith("1 sample gives")

    def test_masked_label(self, examined):
        logits, labels = logits_and_labels(200)
        logits[5, labels[5]] = -torch.inf
        found = examined(Predictions.from_logits(logits, labels))
        assert "Unmask" in found["impossible_labels"].advice
        assert "temperature" not in found


class TestLabels:
    def test_missing_classes(self, examined):
        logits, labels = logits_and_labels()
        kept = (labels != 3) & (labels != 8)
        found = examined(Predictions.from_logits(logits[kept], labels[kept]))
        assert found["missing_classes"].severity == "warning"
        assert "2 of 10 classes have no sample (3, 8)" in found["missing_classes"].what

    @pytest.mark.parametrize("offset", [-1, 1])
    def test_off_by_one(self, examined, offset):
        logits, labels = logits_and_labels(sharpness=3.0)
        labels = logits.argmax(1)
        kept = (labels + offset >= 0) & (labels + offset < 10)
        found = examined(Predictions.from_logits(logits[kept], labels[kept] + offset))
        assert found["shifted_labels"].severity == "problem"
        assert f"100% with every label {-offset:+d}" in found["shifted_labels"].what
        assert "below_chance" not in found

    def test_swapped(self, examined):
        logits, labels = logits_and_labels(classes=2)
        found = examined(Predictions.from_logits(logits, 1 - labels))
        assert severities(found)["swapped_classes"] == "problem"

    def test_below_chance(self, examined):
        logits, labels = logits_and_labels(2000)
        found = examined(Predictions.from_logits(-logits, labels))
        assert severities(found)["below_chance"] == "problem"
        assert severities(found)["temperature_at_bound"] == "problem"

    def test_labels_of_other_samples(self, examined):
        logits, labels = logits_and_labels(2000)
        found = examined(Predictions.from_logits(logits, labels.roll(1)))
        assert severities(found)["no_better_than_chance"] == "warning"

    def test_most_common_class(self, examined):
        logits, labels = logits_and_labels(1000, 2)
        labels[300:] = 0
        logits[300:700, 0] = logits[300:700, 1] + 1  # right in these, as often as not in the others
        found = examined(Predictions.from_logits(logits, labels))
        assert severities(found)["no_better_than_the_most_common_class"] == "warning"

    def test_one_class_predicted(self, examined):
        logits, labels = logits_and_labels(100)
        logits[:, 4] += 100
        assert severities(examined(Predictions.from_logits(logits, labels)))["one_class_predicted"] == "warning"

    def test_soft_labels(self, examined):
        logits, _ = logits_and_labels(2000)
        found = examined(Predictions.from_logits(logits, logits.softmax(1)))
        assert "missing_classes" not in found


class TestRepeats:
    def test_duplicate_ids(self, examined):
        names = [f"image-{i // 2}" for i in range(600)]
        found = examined(predictions(ids=names, allow_duplicate_ids=True))
        assert found["duplicate_ids"].severity == "problem"
        assert "300 ids occur more than once" in found["duplicate_ids"].what

    def test_duplicate_rows(self, examined):
        preds = predictions(1000)
        found = examined(preds.select(torch.arange(1200) % 1000))
        assert found["duplicate_rows"].severity == "warning"
        assert found["duplicate_rows"].what.startswith("16.")

    def test_sure_predictions_repeat_by_rounding(self, examined):
        probs = torch.eye(10).repeat(50, 1)
        found = examined(Predictions.from_probs(probs, probs.argmax(1)))
        assert "duplicate_rows" not in found


class TestFit:
    def test_temperature_is_told(self, examined):
        found = examined(predictions(5000, sharpness=2.0))
        assert "less confidence would lower it" in found["temperature"].what
        temperature = float(found["temperature"].what.split("is ")[1].split(":")[0])
        assert temperature == pytest.approx(2.0, rel=0.1)

    def test_lower_bound(self, examined):
        logits, _ = logits_and_labels(500)
        found = examined(Predictions.from_logits(logits, logits.argmax(1)))
        assert severities(found)["temperature_at_bound"] == "warning"

    def test_scaled_logits(self, examined):
        assert severities(examined(predictions(500, sharpness=40.0)))["unusual_temperature"] == "warning"

    def test_too_few_samples(self, examined):
        found = examined(predictions(40))
        assert found["too_few_samples"].severity == "warning"
        assert "no miscalibration detected (p = " in found["too_few_samples"].what

    def test_few_samples_may_be_enough_to_show_miscalibration(self, examined):
        wrong = Predictions.from_confidence(torch.full((60,), 0.9), torch.arange(60) % 2)
        assert "the model is miscalibrated (p < 0.001)" in examined(wrong)["too_few_samples"].what

    def test_few_clusters_are_few_samples(self, examined):
        frames = torch.arange(20_000) % 40
        videos = predictions(40).select(frames)
        assert "too_few_samples" not in examined(videos)
        assert "too_few_samples" in examined(dataclasses.replace(videos, clusters=frames))

    def test_more_samples_are_enough(self, examined):
        assert "too_few_samples" not in examined(predictions(20_000))
