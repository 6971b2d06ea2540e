"""The Sentiment Treebank: a small one written here, and the real one where it is."""

import os
import zipfile

import numpy as np
import pytest
import torch

from focalcal.data.data_sets import load_data
from focalcal.data.sst import load_sst

CPU = torch.device("cpu")
TRAIN = ["(3 (2 a) (4 (2 great) (3 -LRB-)))", "(2 (2 so) (2 so))", "(1 (0 dull) (2 Film))"]
DEV = ["(3 (2 a) (4 joy))", "(2 even)"]
TEST = ["(0 (1 unheard) (2 film))", "(4 superb)"]


def pack(root, train=TRAIN, dev=DEV, test=TEST, glove="great 1 2\nfilm 3 4\njoy 5 6\n( 7 8\n"):
    (root / "sst").mkdir(parents=True)
    (root / "glove").mkdir()
    (root / "glove" / "tiny.2d.txt").write_text(glove)
    with zipfile.ZipFile(root / "sst" / "trainDevTestTrees_PTB.zip", "w") as archive:
        for name, lines in (("train", train), ("dev", dev), ("test", test)):
            archive.writestr(f"trees/{name}.txt", "\n".join(lines) + "\n")
    return root


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_sentences_with_a_neutral_root_are_left_out(cache):
    data = load_sst(root=pack(cache / "data"), dimension=2)
    assert data.class_names == ("negative", "positive")
    assert data.train.labels.tolist() == [1, 0]
    assert data.train.ids.tolist() == [0, 2]
    assert data.evaluation["val"].ids.tolist() == [3]
    assert data.evaluation["test"].labels.tolist() == [0, 1]
    assert data.evaluation["test"].ids.tolist() == [5, 6]
    assert data.facts["sizes"] == {"train": 2, "val": 1, "test": 2}
    assert data.train.lengths.tolist() == [3, 2]


def test_two_classes_supervise_every_node_that_is_not_neutral(cache):
    data = load_sst(root=pack(cache / "data"), dimension=2)
    inputs, targets = data.train.batch(torch.tensor([1, 0]), device=CPU, generator=None)
    assert targets.tolist() == [0, 0, 1, 1, 1]  # dull, root; -LRB-, great -LRB-, root
    assert len(inputs.output_nodes) == 5
    assert data.facts["masked_classes"] == []


def test_three_classes_supervise_every_node_and_name_the_masked_one(cache):
    data = load_sst(root=pack(cache / "data"), dimension=2, classes=3)
    _, targets = data.train.batch(torch.tensor([1, 0]), device=CPU, generator=None)
    assert targets.tolist() == [0, 1, 0, 1, 1, 2, 2, 2]
    assert data.train.labels.tolist() == [2, 0]
    assert data.class_names == ("negative", "neutral", "positive")
    assert data.facts["masked_classes"] == [1]


@pytest.mark.parametrize("classes", [2, 3])
def test_evaluation_asks_for_roots_in_the_order_of_positions(cache, classes):
    data = load_sst(root=pack(cache / "data"), dimension=2, classes=classes)
    for samples in (data.evaluation["test"], data.train.for_evaluation()):
        inputs, targets = samples.batch(torch.tensor([1, 0]), device=CPU, generator=None)
        assert torch.equal(targets, samples.labels[[1, 0]])
        assert len(inputs.output_nodes) == 2


def test_words_are_spelled_as_glove_does_and_unknown_ones_share_a_row(cache):
    data = load_sst(root=pack(cache / "data"), dimension=2)
    vectors = data.model_options["embeddings"]
    words = data.evaluation["test"].trees.words
    rows = words[words >= 0].tolist()  # unheard, film, superb
    assert rows[0] == rows[2] == 0
    assert vectors[rows[1]].tolist() == [3, 4]
    joy = data.evaluation["val"].trees.words
    assert [5, 6] in vectors[joy[joy >= 0]].tolist()
    bracket = data.train.trees.words
    assert [7, 8] in vectors[bracket[bracket >= 0]].tolist()
    # a, great, (, so, dull, film; of 8 tokens great, ( and film are in GloVe
    assert data.facts["training_words"] == 6
    assert data.facts["training_words_in_glove"] == 3
    assert data.facts["training_tokens_in_glove"] == round(3 / 7, 4)


def test_the_seed_draws_the_vectors_of_missing_words(cache):
    root = pack(cache / "data")
    first, again, other = (
        load_sst(root=root, dimension=2, seed=seed).model_options["embeddings"] for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_wrong_tree_is_named_with_file_and_line(cache):
    root = pack(cache / "data", dev=[*DEV, "(3 (2 a) (9 joy))"])
    with pytest.raises(ValueError, match=r"^trainDevTestTrees_PTB.zip/trees/dev.txt, line 3: the label '9' of a node"):
        load_sst(root=root, dimension=2)


def test_damaged_and_missing_files(cache):
    root = pack(cache / "data")
    archive = root / "sst" / "trainDevTestTrees_PTB.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("trees/train.txt", TRAIN[0])
    with pytest.raises(ValueError, match=r"has no trees/dev.txt"):
        load_sst(root=root, dimension=2)
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("trees/train.txt", b"(3 good)\n(3 caf\xe9)")
    with pytest.raises(ValueError, match=r"trees/train.txt, line 2 is not UTF-8"):
        load_sst(root=root, dimension=2)
    archive.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"is not a whole zip file .*; fetch it again"):
        load_sst(root=root, dimension=2)


def test_a_zip_with_changed_bytes(cache):
    root = pack(cache / "data")
    archive = root / "sst" / "trainDevTestTrees_PTB.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("trees/train.txt", "(3 (2 a) (4 b))\n" * 50)
    content = bytearray(archive.read_bytes())
    content[48:56] = bytes(255 - byte for byte in content[48:56])
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a whole zip file"):
        load_sst(root=root, dimension=2)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_split_of_neutral_sentences_alone_is_refused(cache, split):
    root = pack(cache / "data")
    archive = root / "sst" / "trainDevTestTrees_PTB.zip"
    with zipfile.ZipFile(archive) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    members[f"trees/{split}.txt"] = b"(2 (3 so) (1 so))\n"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    with pytest.raises(ValueError, match=r"trees of the Sentiment Treebank are all neutral"):
        load_sst(root=root, dimension=2)


def test_classes_are_two_or_three():
    with pytest.raises(ValueError, match=r"2 or 3 classes, not 5"):
        load_sst(classes=5, synthetic=2)


@pytest.mark.parametrize("classes", [2, 3])
def test_synthetic_trees_need_no_file(classes):
    data = load_data("sst", synthetic=6, classes=classes, root="/nowhere")
    assert (len(data.train), len(data.evaluation["val"]), len(data.evaluation["test"])) == (6, 6, 6)
    inputs, targets = data.train.batch(torch.arange(6), device=CPU, generator=None)
    assert targets.min() >= 0
    assert targets.max() < classes
    assert inputs.words.max() < len(data.model_options["embeddings"])
    with pytest.raises(ValueError, match=r"at least 1; got 0"):
        load_data("sst", synthetic=0)


def test_the_real_treebank(tmp_path, monkeypatch):
    if not os.environ.get("FOCALCAL_DATA"):
        pytest.skip("FOCALCAL_DATA is not set: it names the folder with sst/ and glove/.")
    monkeypatch.setenv("FOCALCAL_CACHE", str(tmp_path))
    data = load_data("sst")
    assert data.facts["sizes"] == {"train": 6920, "val": 872, "test": 1821}
    assert data.train.labels.bincount().tolist() == [3310, 3610]
    assert data.facts["training_tokens_in_glove"] > 0.9
    words = np.unique(data.train.trees.words)
    assert words[-1] < len(data.model_options["embeddings"])
