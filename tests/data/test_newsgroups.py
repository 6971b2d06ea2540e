"""20 Newsgroups: a small archive written here, and the real one where it is; the split by date; trimmed padding."""

import io
import os
import tarfile
from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
import torch

from focalcal.data import newsgroups
from focalcal.data.data_sets import load_data
from focalcal.data.newsgroups import load_newsgroups, make_authors_splits, read_newsgroups
from focalcal.data.splits import hash_split
from focalcal.data.text_tokens import NumberedTexts, TokenSamples, split_words
from focalcal.recipes import load_recipe
from focalcal.training.building import build_data

CPU = torch.device("cpu")


def message(body):
    return f"From: someone@somewhere\nSubject: secret\n\n{body}"


def pack(root, messages):
    (root / "newsgroups").mkdir(parents=True)
    (root / "glove").mkdir()
    (root / "glove" / "tiny.2d.txt").write_text("apple 1 2\npear 3 4\n")
    with tarfile.open(root / "newsgroups" / "20_newsgroups.tar.gz", "w:gz") as archive:
        for name, text in messages.items():
            content = text.encode("latin-1")
            about = tarfile.TarInfo(f"20_newsgroups/{name}")
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return root


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(newsgroups, "_VALIDATION", 2)
    monkeypatch.setattr(newsgroups, "_TEST", 3)
    messages = {f"rec.autos/{i}": message(f"Apple, apple! pear-{i % 2}") for i in (10, 9, 8, 7, 6, 5)}
    messages |= {f"alt.atheism/{i}": message("caf\u00e9 apple") for i in (3, 2, 1)}
    messages |= {"alt.atheism/4": message(""), "alt.atheism/readme": message("never read")}
    messages |= {
        "rec.fruit/1": message("no group"),
        "../../etc/5": message("no group"),
        "/7": "",
        "alt.atheism/\u00b2": "",
        f"alt.atheism/{'9' * 5000}": "",
    }
    return pack(tmp_path / "data", messages)


def test_messages_come_by_group_and_number_without_their_header(small):
    documents, names = read_newsgroups(small / "newsgroups" / "20_newsgroups.tar.gz")
    assert names == ("alt.atheism", "rec.autos")
    assert documents.labels.tolist() == [0] * 4 + [1] * 6
    texts = [
        [documents.words[n] for n in documents.texts.select(np.array([i])).numbers] for i in range(len(documents.texts))
    ]
    assert texts[0] == ["caf\u00e9", "apple"]
    assert texts[3] == []
    assert texts[4:6] == [["apple", "apple", "pear", "1"], ["apple", "apple", "pear", "0"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_header_ends_at_the_first_blank_line_however_lines_end(end):
    lines = ["From: someone", "Subject: secret", "", "Dear all,", "", "bye"]
    assert newsgroups.drop_header(end.join(lines)) == end.join(lines[3:])
    assert newsgroups.drop_header(end.join(lines[3:4])) == "Dear all,"
    assert newsgroups.drop_header(end.join(lines[2:])) == end.join(lines[3:])


def test_the_vocabulary_is_that_of_the_training_split(small):
    data = load_newsgroups(root=small, dimension=2, words=1)
    assert data.facts["sizes"] == {"train": 5, "val": 2, "test": 3}
    assert data.facts["vocabulary"] == data.facts["vocabulary_in_glove"] == 1  # apple
    assert data.facts["empty_texts"] == 1
    assert data.model_options["embeddings"].shape == (3, 2)
    assert data.model_options["embeddings"][0].tolist() == [0, 0]
    assert data.model_options["embeddings"][2].tolist() == [1, 2]
    ids = torch.cat([data.train.ids, *(some.ids for some in data.evaluation.values())])
    assert sorted(ids.tolist()) == list(range(10))


def test_a_text_without_a_known_word_is_one_unknown_word(tmp_path, small):
    data = load_newsgroups(root=small, dimension=2, words=1)
    everything = [data.train, *data.evaluation.values()]
    (empty,) = ((some, int(place)) for some in everything for place in range(len(some)) if int(some.ids[place]) == 3)
    samples, place = empty
    words = samples.batch(torch.tensor([place]), device=CPU, generator=None).inputs.words
    assert words[0, -1] == 1
    assert int((words != 0).sum()) == 1


def test_an_archive_with_fewer_groups_is_noted(small):
    assert load_newsgroups(root=small, dimension=2).facts["notes"] == ["The archive holds 2 of the 20 groups."]


def test_the_seed_makes_the_split(small):
    first, again, other = (load_newsgroups(root=small, dimension=2, seed=seed).train.ids for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


AUTHORS_SPLIT = {
    "train": (15_098, "7a57091fdca86afdf836430c058ea7cdd9b14566ce60bd7b99e7a08dd3f06c1e"),
    "val": (900, "fe61ecd5d077c2f428224fa781a5a48c089712a085d9c01d772e42c1bcb7f69b"),
    "test": (3_999, "4a16c304527f6a7487c329a4c25084d4d96e08a3607f8505d4ff65ffed09dd33"),
}


def test_the_authors_split_is_pinned():
    """Their code: np.random.seed(1), np.random.shuffle of all, the last 3,999 for test, the 900 before to validate."""
    splits = make_authors_splits(19_997)
    assert {name: (len(part), hash_split(part)) for name, part in splits.items()} == AUTHORS_SPLIT
    theirs = np.random.RandomState(1).permutation(19_997)[-3_999:]
    assert splits["test"].tolist() == sorted(theirs.tolist())
    with pytest.raises(ValueError, match=r"^The authors split 19,997 messages, and there are 19,996; fetch the file"):
        make_authors_splits(19_996)


def test_messages_can_come_by_name(small):
    documents, _ = read_newsgroups(small / "newsgroups" / "20_newsgroups.tar.gz", by_name=True)
    last = [[documents.words[n] for n in documents.texts.select(np.array([i])).numbers][-1] for i in range(4, 10)]
    assert last == ["0", "1", "0", "1", "0", "1"]  # 10, 5, 6, 7, 8, 9


def test_the_vocabulary_may_be_that_of_all_messages(small):
    data = load_newsgroups(root=small, dimension=2, vocabulary="all", missing_vectors="zeros")
    assert data.train.vocabulary[:2] == ["apple", "pear"]
    assert set(data.train.vocabulary) == {"apple", "pear", "0", "1", "café"}
    embeddings = data.model_options["embeddings"]
    assert embeddings[2:4].tolist() == [[1, 2], [3, 4]]
    assert not embeddings[:2].any()
    assert not embeddings[4:].any()
    assert "2 of 5 words have a vector in tiny.2d.txt; the others are zeros." in data.facts["coverage"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "author"}, "split must be random or authors and is 'author'"),
        ({"vocabulary": "test"}, "vocabulary must be training or all and is 'test'"),
        ({"missing_vectors": "ones"}, "missing_vectors must be random or zeros and is 'ones'"),
        ({"split": "authors", "by_date": True}, "by_date and split=authors are two different splits"),
    ],
)
def test_options_that_there_are_not(small, options, words):
    with pytest.raises(ValueError, match=words):
        load_newsgroups(root=small, dimension=2, **options)


def test_the_authors_split_needs_the_whole_archive(small):
    with pytest.raises(ValueError, match="The authors split 19,997 messages, and there are 10"):
        load_newsgroups(root=small, dimension=2, split="authors")


def test_padding_and_truncation_are_at_the_front():
    texts = NumberedTexts(np.array([2, 3, 4, 5, 6, 7, 8]), np.array([0, 2, 7]))
    samples = TokenSamples(texts, torch.tensor([0, 1]), torch.arange(2), tokens=4, trim=False)
    batch = samples.batch(torch.tensor([1, 0]), device=CPU, generator=None)
    assert batch.inputs.words.tolist() == [[5, 6, 7, 8], [0, 0, 2, 3]]
    assert batch.inputs.left_out == 0
    assert batch.targets.tolist() == [1, 0]
    assert samples.lengths.tolist() == [2, 4]


def test_what_is_trimmed_is_named():
    texts = NumberedTexts(np.full(40, 2), np.array([0, 10, 40]))
    samples = TokenSamples(texts, torch.zeros(2, dtype=torch.int64), torch.arange(2), tokens=1000)
    words, left_out = samples.batch(torch.tensor([0, 1]), device=CPU, generator=None).inputs
    assert words.shape == (2, 30)
    assert left_out == 970
    assert samples.batch(torch.tensor([0]), device=CPU, generator=None).inputs.left_out == 990


def test_damaged_archives(small, tmp_path):
    archive = small / "newsgroups" / "20_newsgroups.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"is not a whole tar.gz file"):
        load_newsgroups(root=small, dimension=2)
    archive.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"is not a whole tar.gz file"):
        load_newsgroups(root=small, dimension=2)
    other = pack(tmp_path / "other", {"alone/1": message("apple")})
    with pytest.raises(ValueError, match=r"at least two of the 20 groups"):
        load_newsgroups(root=other, dimension=2)


def test_the_split_by_date_is_that_of_scikit_learn(small, monkeypatch):
    def fetched(*, subset, remove, shuffle, data_home, download_if_missing):
        assert remove == ("headers",)
        assert download_if_missing
        assert not shuffle
        count = {"train": 6, "test": 4}[subset]
        texts = [f"apple {subset}{i}" for i in range(count)]
        return SimpleNamespace(data=texts, target=np.arange(count) % 2, target_names=["a", "b"])

    monkeypatch.delenv("FOCALCAL_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", fetched)
    data = load_newsgroups(root=small, dimension=2, by_date=True)
    assert data.facts["sizes"] == {"train": 4, "val": 2, "test": 4}
    assert data.evaluation["test"].ids.tolist() == [6, 7, 8, 9]
    assert data.class_names == ("a", "b")

    def unreachable(**_):
        raise OSError("no network")

    monkeypatch.setattr(sklearn.datasets, "fetch_20newsgroups", unreachable)
    with pytest.raises(ValueError, match=r"could not fetch 20 Newsgroups by date \(no network\)"):
        load_newsgroups(root=small, dimension=2, by_date=True)


def test_the_split_by_date_is_not_fetched_where_downloads_are_switched_off(small, tmp_path, monkeypatch):
    monkeypatch.setenv("FOCALCAL_OFFLINE", "1")
    with pytest.raises(ValueError, match="by date \\(downloads are switched off by FOCALCAL_OFFLINE\\); connect"):
        load_newsgroups(root=small, dimension=2, by_date=True)
    assert not (tmp_path / "cache" / "scikit-learn").exists()


def test_options_that_make_no_sense(small):
    with pytest.raises(ValueError, match=r"tokens must be a whole number of at least 1 and is 0"):
        load_newsgroups(root=small, tokens=0)


def test_synthetic_texts_need_no_file():
    data = load_data("newsgroups", synthetic=5, root="/nowhere")
    assert len(data.class_names) == 20
    assert (len(data.train), sorted(data.evaluation)) == (5, ["test", "val"])
    words = data.train.batch(torch.arange(5), device=CPU, generator=None).inputs.words
    assert words.max() < len(data.model_options["embeddings"])
    with pytest.raises(ValueError, match=r"at least 1; got 0"):
        load_data("newsgroups", synthetic=0)


def test_the_real_collection(tmp_path, monkeypatch):
    if not os.environ.get("FOCALCAL_DATA"):
        pytest.skip("FOCALCAL_DATA is not set: it names the folder with newsgroups/ and glove/.")
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path))
    data = load_data("newsgroups")
    assert data.facts["sizes"] == {"train": 15_098, "val": 900, "test": 3_999}
    assert data.class_names == newsgroups._GROUPS
    assert data.facts["vocabulary"] == 20_000
    assert data.facts["vocabulary_in_glove"] > 15_000
    assert int(data.train.lengths.max()) == 1000
    assert int(data.train.lengths.min()) == 1


def plain_messages(archive):
    """Group, file name and text without its header, by group and name, as the authors' code reads extracted files."""
    with tarfile.open(archive) as opened:
        members = [member for member in opened if member.isfile()]
        for member in sorted(members, key=lambda member: tuple(member.name.split("/")[-2:])):
            text = opened.extractfile(member).read().decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
            blank = text.find("\n\n")
            yield member.name.split("/")[-2], text[blank:] if blank > 0 else text


def test_the_real_collection_as_the_authors_take_it(tmp_path, monkeypatch):
    """Against the slow way: files by name, words counted over all texts, numbers from 1 below 20,000."""
    if not os.environ.get("FOCALCAL_DATA"):
        pytest.skip("FOCALCAL_DATA is not set: it names the folder with newsgroups/ and glove/.")
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path))
    recipe = load_recipe("newsgroups/gp_cnn_authors")
    data = build_data(recipe)
    splits = {"train": data.train, **data.evaluation}
    assert {name: (len(some), hash_split(some.ids)) for name, some in splits.items()} == AUTHORS_SPLIT
    archive = Path(os.environ["FOCALCAL_DATA"], "newsgroups", "20_newsgroups.tar.gz")
    groups, texts = zip(*((group, split_words(text)) for group, text in plain_messages(archive)), strict=True)
    counts = Counter(chain(*texts))
    numbers = {word: number for number, word in enumerate(sorted(counts, key=lambda word: -counts[word]), start=1)}
    assert data.train.vocabulary == [word for word, number in numbers.items() if number < 20_000]
    known = set(data.train.vocabulary)
    for place in range(0, 3_999, 100):
        number = int(data.evaluation["test"].ids[place])
        batch = data.evaluation["test"].batch(torch.tensor([place]), device=CPU, generator=None)
        words = [data.train.vocabulary[row - 2] for row in batch.inputs.words[0].tolist() if row > 1]
        assert words == [word for word in texts[number] if word in known][-1000:]
        assert data.class_names[int(batch.targets[0])] == groups[number]
