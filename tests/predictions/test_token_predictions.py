"""Token predictions through the common reader: logits block by block, sentences as clusters, groups of tokens."""

import pytest
import torch

from focalcal.metrics import evaluate
from focalcal.metrics.streaming.token_calibration import evaluate_tokens
from focalcal.predictions import Predictions, open_predictions
from focalcal.predictions.token_predictions import TokenPredictions


def tokens(frequencies=True):
    source = torch.Generator().manual_seed(0)
    features, weight = torch.randn(60, 5, generator=source), torch.randn(8, 5, generator=source)
    labels = torch.randint(0, 8, (60,), generator=source)
    sentences, positions = torch.arange(60) // 6, torch.arange(60) % 6
    counted = torch.tensor([0, 1, 9, 10, 99, 500, 5000, 50_000]) if frequencies else None
    return TokenPredictions(features, weight, labels, sentences, positions, "test", counted)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "test.safetensors"
    tokens().save(path)
    return path


def test_blocks_are_the_logits_of_the_last_layer(file):
    opened = open_predictions(file)
    assert (opened.num_samples, opened.num_classes, opened.split) == (60, 8, "test")
    blocks = list(opened.blocks(rows=7))
    assert [len(block) for block in blocks] == [7] * 8 + [4]
    expected = tokens()
    torch.testing.assert_close(torch.cat([block.values for block in blocks]), expected[:])
    assert torch.equal(torch.cat([block.labels for block in blocks]), expected.labels)


def test_sentences_are_clusters_and_tokens_have_groups(file):
    preds = Predictions.load(file)
    assert torch.equal(preds.clusters, tokens().sentences)
    assert preds.groups["position"].texts()[:6] == ["1", "2–4", "2–4", "2–4", "5–9", "5–9"]
    names = {0: "0", 1: "1–9", 2: "1–9", 3: "10–99", 4: "10–99", 5: "100–999", 6: "1,000–9,999", 7: "10,000+"}
    assert preds.groups["frequency"].texts() == [names[label] for label in tokens().labels.tolist()]


def test_the_figures_are_those_of_the_stream(file):
    found = evaluate(Predictions.load(file), bootstrap=0).values
    expected = evaluate_tokens(TokenPredictions.load(file)).values
    for name in ("error", "nll", "ece", "ada_ece", "classwise_ece"):
        assert found[name] == pytest.approx(expected[name], rel=1e-6)


def test_files_without_frequencies_have_no_such_group(tmp_path):
    tokens(frequencies=False).save(tmp_path / "old.safetensors")
    assert list(Predictions.load(tmp_path / "old.safetensors").groups) == ["position"]
    assert TokenPredictions.load(tmp_path / "old.safetensors").frequencies is None


def test_frequencies_are_kept(file):
    assert torch.equal(TokenPredictions.load(file).frequencies, tokens().frequencies)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weight": torch.zeros(8, 4)}, "do not fit the weight"),
        ({"frequencies": torch.zeros(3, dtype=torch.int64)}, r"have shape \(3,\), where \(8,\) is expected"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, change, sentence):
    from dataclasses import replace

    path = tmp_path / "wrong.safetensors"
    replace(tokens(), **change).save(path)
    with pytest.raises(ValueError, match=sentence):
        Predictions.load(path)
