"""20 Newsgroups: a small archive written here, and the real one where it is; the split by date; trimmed padding."""

import io
import os
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
import torch

from focalcal.data import newsgroups
from focalcal.data.newsgroups import load_newsgroups, read_newsgroups
from focalcal.data.registry import load_data
from focalcal.data.text_tokens import NumberedTexts
from focalcal.data.token_samples import TokenSamples

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
    assert newsgroups.without_header(end.join(lines)) == end.join(lines[3:])
    assert newsgroups.without_header(end.join(lines[3:4])) == "Dear all,"
    assert newsgroups.without_header(end.join(lines[2:])) == end.join(lines[3:])


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


def test_padding_and_truncation_are_at_the_front():
    texts = NumberedTexts(np.array([2, 3, 4, 5, 6, 7, 8]), np.array([0, 2, 7]))
    samples = TokenSamples(texts, torch.tensor([0, 1]), torch.arange(2), tokens=4, trim=False)
    batch = samples.batch(torch.tensor([1, 0]), device=CPU, generator=None)
    assert batch.inputs.words[:, -5:].tolist() == [[0, 5, 6, 7, 8], [0, 0, 0, 2, 3]]
    assert batch.inputs.words.shape == (2, 149)
    assert batch.targets.tolist() == [1, 0]
    assert samples.lengths.tolist() == [2, 4]


def test_what_is_trimmed_is_named():
    texts = NumberedTexts(np.full(40, 2), np.array([0, 10, 40]))
    samples = TokenSamples(texts, torch.zeros(2, dtype=torch.int64), torch.arange(2), tokens=1000)
    words, left_out = samples.batch(torch.tensor([0, 1]), device=CPU, generator=None).inputs
    assert words.shape == (2, 50)
    assert left_out == 950
    assert samples.batch(torch.tensor([0]), device=CPU, generator=None).inputs.left_out == 975


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
