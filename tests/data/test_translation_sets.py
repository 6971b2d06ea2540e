"""Sentence pairs as data sets: subwords, batches, what is left out, and the real Multi30k."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalcal.data import load_data
from focalcal.data.data_sets import WMT14
from focalcal.data.sentence_pairs import SentencePairs, add_ends
from focalcal.data.subwords import SubwordVocabulary, learn_vocabulary

CPU = torch.device("cpu")
WORDS = ["a", "small", "dog", "big", "cat", "runs", "sleeps", "now", "here", "there"]


def corpus(count, seed=0):
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, size=n)) for n in generator.integers(2, 8, size=count)]


def write_pairs(folder, split, source, target):
    paths = [folder / f"{split}.en", folder / f"{split}.de"]
    for path, lines in zip(paths, (source, target), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(path) for path in paths]


@pytest.fixture
def own_files(tmp_path):
    lines = {
        split: corpus(count, seed) for seed, (split, count) in enumerate({"train": 50, "val": 7, "test": 5}.items())
    }
    return {split: write_pairs(tmp_path, split, some, some[::-1]) for split, some in lines.items()}


@given(
    st.lists(st.tuples(st.lists(st.integers(4, 30), max_size=6), st.lists(st.integers(4, 30), max_size=6)), min_size=1)
)
def test_a_batch_asks_for_every_subword_once(rows):
    pairs = SentencePairs(add_ends([s for s, _ in rows]), add_ends([t for _, t in rows]), torch.arange(len(rows)))
    inputs, targets = pairs.batch(torch.arange(len(rows)), device=CPU, generator=None)
    assert targets.tolist() == [word for _, row in rows for word in (*row, 3)]
    read = inputs.target.flatten()[inputs.output_places].tolist()
    assert read == [word for _, row in rows for word in (2, *row)]
    assert inputs.source[inputs.source != 0].tolist() == [word for row, _ in rows for word in (*row, 3)]
    assert int((inputs.target != 0).sum()) == len(targets)
    assert pairs.lengths.tolist() == [max(len(s), len(t)) + 1 for s, t in rows]


def test_own_files_become_a_data_set(own_files):
    data = load_data("parallel", **own_files, vocabulary=40)
    assert (len(data.train), sorted(data.evaluation)) == (50, ["test", "val"])
    assert data.model_options == {"num_classes": 40, "max_length": 256}
    vocabulary, pairs = data.train.vocabulary, data.evaluation["test"]
    inputs, _ = pairs.batch(torch.tensor([2]), device=CPU, generator=None)
    assert vocabulary.decode(inputs.target.tolist()) == [pairs.references[2]]


def test_the_vocabulary_is_learnt_from_the_training_split_only(own_files, tmp_path):
    data = load_data("parallel", **own_files, vocabulary=40)
    own_files["val"] = write_pairs(tmp_path, "val", ["zebra"] * 3, ["Zebra"] * 3)
    other = load_data("parallel", **own_files, vocabulary=40)
    assert data.facts["vocabulary_sha256"] == other.facts["vocabulary_sha256"]
    assert other.facts["unknown_subwords"]["val"] > 0
    assert any("subwords of the source are unknown" in note for note in other.facts["notes"])


def test_empty_and_long_pairs_are_left_out_and_counted(own_files, tmp_path):
    source = [*corpus(6), "", "dog " * 40]
    own_files["val"] = write_pairs(tmp_path, "val", source, [*corpus(6), "a dog", "a cat"])
    data = load_data("parallel", **own_files, vocabulary=40, max_tokens=30)
    assert data.facts["left_out"]["val"] == {"empty": 1, "too_long": 1}
    assert data.evaluation["val"].ids.tolist() == list(range(50, 56))
    assert "val: 1 pairs with an empty line and 1 of more than 30 subwords were left out." in data.facts["notes"]


def test_the_vocabulary_is_cached(monkeypatch, tmp_path):
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path))
    first = learn_vocabulary(corpus(40), 40)
    (place,) = (tmp_path / "vocabularies").iterdir()
    monkeypatch.setattr("focalcal.data.subwords._learn", None)
    assert learn_vocabulary(corpus(40), 40).model == first.model
    assert SubwordVocabulary.load(place).sha256 == first.sha256


def test_a_damaged_cache_is_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path))
    first = learn_vocabulary(corpus(40), 40)
    (place,) = (tmp_path / "vocabularies").iterdir()
    place.write_bytes(b"damaged")
    assert learn_vocabulary(corpus(40), 40).model == first.model


def test_unknown_characters_become_unknown_subwords():
    vocabulary = learn_vocabulary(corpus(40), 40)
    assert 1 in vocabulary.encode(["a dög"])[0]


def test_synthetic_pairs_need_no_file():
    data = load_data("multi30k", synthetic=12)
    assert (len(data.train), sorted(data.evaluation)) == (12, ["test", "val"])
    one, other = load_data("wmt14", synthetic=5, seed=1), load_data("wmt14", synthetic=5, seed=2)
    assert one.train.references != other.train.references


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"vocabulary": 100_000}, "No vocabulary of 100,000 subwords can be learnt from 100 sentences"),
        ({"vocabulary": 3}, "vocabulary must be a whole number of at least 5"),
        ({"subwords": "words"}, "subwords must be bpe or unigram"),
        ({"val": None}, "needs val: two files of lines"),
        ({"max_tokens": 5, "val": None}, "needs val"),
    ],
)
def test_options_that_do_not_fit_are_named(own_files, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_data("parallel", **(own_files | options))


def test_a_split_without_a_short_pair_is_named(own_files, tmp_path):
    own_files["val"] = write_pairs(tmp_path, "val", ["dog " * 40], ["cat " * 40])
    with pytest.raises(ValueError, match="The split val of parallel has no pair of at most 30 subwords"):
        load_data("parallel", **own_files, vocabulary=40, max_tokens=30)


def test_multi30k_is_read_both_ways_only():
    with pytest.raises(ValueError, match="languages en and de"):
        load_data("multi30k", source="en", target="fr", synthetic=3)


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path):
    place = tmp_path / "vocabulary.model"
    place.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="not a sentencepiece model"):
        SubwordVocabulary.load(place)
    with pytest.raises(FileNotFoundError, match=r"^There is no file .*missing\.model\.$"):
        SubwordVocabulary.load(tmp_path / "missing.model")


def test_without_sentencepiece_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ImportError, match=r"pip install 'focalcal\[translation\]'"):
        learn_vocabulary(corpus(5), 30)


def test_missing_files_are_asked_for(tmp_path):
    with pytest.raises(ValueError, match=r"multi30k/train\.en\.gz is not in"):
        load_data("multi30k", root=tmp_path)


def test_the_real_multi30k(real_data):
    data = load_data("multi30k", root=real_data)
    assert data.facts["sizes"] == {"train": 29_000, "val": 1_014, "test": 1_000, "test_2017": 1_000}
    assert data.facts["vocabulary"] == 10_000
    with gzip.open(real_data / "multi30k/test_2016_flickr.de.gz", "rt", encoding="utf-8") as file:
        assert [line.rstrip("\n") for line in file] == list(data.evaluation["test"].references)
    test = data.evaluation["test"]
    inputs, _ = test.batch(torch.arange(5), device=CPU, generator=None)
    assert test.vocabulary.decode(inputs.target.tolist()) == list(test.references[:5])


def test_wmt14_is_read_in_its_public_layout(tmp_path):
    """Three shards of training pairs, one file each of validation and test, with a column ``translation``."""
    lines = corpus(90)
    rows = iter([{"de": line[::-1], "en": line} for line in lines])
    for files in WMT14.values():
        for file in files:
            path = tmp_path / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            kind = pa.struct([("de", pa.string()), ("en", pa.string())])
            pq.write_table(pa.table({"translation": pa.array([next(rows) for _ in range(18)], kind)}), path)
    data = load_data("wmt14", root=tmp_path, vocabulary=60)
    assert (len(data.train), len(data.evaluation["val"]), len(data.evaluation["test"])) == (54, 18, 18)
    assert list(data.train.sources) == lines[:54]
    assert list(data.evaluation["test"].references) == [line[::-1] for line in lines[72:]]
    assert data.model_options["num_classes"] == 60
