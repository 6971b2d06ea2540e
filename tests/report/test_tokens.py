"""Reports on token predictions: subwords as classes, sentences as clusters, and what a sample is."""

import pytest
import torch

from data.test_translation_sets import corpus
from focalcal.data.subwords import learn_vocabulary
from focalcal.metrics.streaming.token_calibration import evaluate_tokens
from focalcal.predictions.token_predictions import TokenPredictions, holds_tokens
from focalcal.report import write_report
from report.test_writing import embedded, visible

pytestmark = pytest.mark.slow

SUBWORDS = 40


def tokens(split, seed):
    """Tokens of sentences of three to seven subwords."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 8, (60,), generator=generator)
    sentences = torch.repeat_interleave(torch.arange(60), lengths)
    labels = torch.randint(SUBWORDS, (len(sentences),), generator=generator)
    weight = torch.randn(SUBWORDS, 6, generator=torch.Generator().manual_seed(9))
    features = weight[labels] + torch.randn(len(labels), 6, generator=generator)
    positions = torch.cat([torch.arange(int(length)) for length in lengths])
    return TokenPredictions(features, weight, labels, sentences, positions, split)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory with what a report reads of a run that translates."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "predictions").mkdir()
    for seed, split in enumerate(("val", "test", "test_2017")):
        tokens(split, seed).save(folder / "predictions" / f"{split}.safetensors")
    learn_vocabulary(corpus(50), SUBWORDS).save(folder / "vocabulary.model")
    return folder


@pytest.fixture(scope="module")
def page(run):
    return write_report({"tokens": run}, run / "report.html", bootstrap=50)


def test_numbers_are_those_of_the_tokens(page):
    before = embedded(page, "numbers")["models"][0]["before"]
    expected = evaluate_tokens(tokens("test", 1))
    assert before["values"]["ece"] == pytest.approx(expected["ece"], rel=1e-6)
    assert before["values"]["nll"] == pytest.approx(expected["nll"], rel=1e-6)
    assert before["values"]["error"] == pytest.approx(expected["error"], rel=1e-9)


def test_classes_are_called_by_their_subwords(page):
    (names,) = embedded(page, "data")["classNames"]
    assert names[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert any(name.startswith("▁") and name.strip("▁") in "cat dog runs" for name in names)


def test_a_second_test_set_is_not_called_out_of_distribution(page):
    assert embedded(page, "data")["models"][0]["ood"] == []


def test_the_page_says_what_a_sample_is_and_what_its_clusters_are(page, run):
    text = visible(page)
    assert "Each sample is a token, predicted from the source sentence and from the true tokens before it." in text
    assert "60 clusters" in text
    file = run / "predictions" / "test.safetensors"
    assert "Each sample is a token" in visible(write_report(file, run / "of-a-file.html", bootstrap=0))


def test_other_files_hold_no_tokens(run, tmp_path):
    assert holds_tokens(run / "predictions" / "test.safetensors")
    (tmp_path / "a.safetensors").write_bytes(b"nothing")
    assert not holds_tokens(tmp_path / "a.safetensors")
    assert not holds_tokens(tmp_path / "missing")
