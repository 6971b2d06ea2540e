import fsspec
import pytest
import torch

from focalcal.predictions import Predictions, open_predictions
from focalcal.predictions.shards import check_alike, describe_shard, find_shards, is_pattern


def preds(classes=3, rows=4, **options):
    logits = torch.randn(rows, classes, generator=torch.Generator().manual_seed(0))
    return Predictions.from_logits(logits, torch.arange(rows) % classes, **options)


def test_patterns_give_files_in_order_and_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.npz", "a.npz", "c.csv"):
        preds().save(name)
    assert find_shards("*.npz") == ["a.npz", "b.npz"]
    assert find_shards(["c.csv", "*.npz"]) == ["c.csv", "a.npz", "b.npz"]
    (tmp_path / "a[1].npz").touch()
    assert not is_pattern("a[1].npz")
    for wrong, sentence in (("x/*.npz", "No file matches"), (["a.npz", "*.npz"], "named twice"), ([], "no shard")):
        with pytest.raises(ValueError, match=sentence):
            find_shards(wrong)


def test_remote_shards(tmp_path):
    storage = fsspec.filesystem("memory")
    try:
        preds(split="test").save(tmp_path / "x.parquet")
        for name in ("b", "a"):
            storage.put_file(str(tmp_path / "x.parquet"), f"/preds/{name}.parquet")
        found = find_shards("memory://preds/*.parquet")
        assert [path.rsplit("/", 1)[1] for path in found] == ["a.parquet", "b.parquet"]
        file = open_predictions(found[0])
        assert (file.split, file.read().values.shape, file.size > 0) == ("test", (4, 3), True)
        storage.pipe("/preds/c.parquet", b"PAR1 and nothing else")
        with pytest.raises(ValueError, match=r"memory:///?preds/c\.parquet is corrupt or truncated"):
            open_predictions("memory:///preds/c.parquet")
        storage.pipe("/preds/d.parquet", b"")
        with pytest.raises(ValueError, match=r"d\.parquet: it is empty"):
            open_predictions("memory:///preds/d.parquet")
    finally:
        storage.store.clear()
        storage.pseudo_dirs[:] = [""]


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (preds(classes=4), "its number of classes is 4, and there 3"),
        (Predictions.from_probs(preds().probs(), preds().labels), "its outputs are probs, and there logits"),
        (preds(class_names=["a", "b", "c"]), "its class names are a, b, c, and there None"),
        (preds(masked_classes=[1]), "its masked classes are 1, and there none"),
    ],
)
def test_shards_of_different_models_do_not_go_together(tmp_path, other, sentence):
    preds().save(tmp_path / "a.npz")
    other.save(tmp_path / "b.npz")
    shards = [describe_shard(str(tmp_path / name), {}) for name in ("a.npz", "b.npz")]
    assert [shard.rows for shard in shards] == [4, 4]
    check_alike(shards[:1])
    with pytest.raises(ValueError, match=sentence):
        check_alike(shards)


def test_a_pattern_reads_several_files_as_one(tmp_path):
    whole = preds(rows=30)
    for number in range(3):
        whole.select(list(range(10 * number, 10 * number + 10))).save(tmp_path / f"{number}.npz")
    file = open_predictions(tmp_path / "*.npz")
    assert (file.num_samples, file.num_classes, file.kind) == (30, 3, "logits")
    assert [len(block) for block in file.blocks(rows=4)] == [4, 4, 2] * 3
    assert torch.equal(Predictions.load(tmp_path / "*.npz").values, whole.values)
    with pytest.raises(ValueError, match="belong to one file"):
        open_predictions(tmp_path / "*.npz", labels=[0] * 30)
    with pytest.raises(ValueError, match="No file matches"):
        open_predictions(tmp_path / "*.csv")


def test_shards_may_be_empty_and_only_all_of_them_may_not(tmp_path):
    whole = preds(rows=4)
    whole.save(tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text().splitlines(keepends=True)
    (tmp_path / "b.csv").write_text("".join(lines[:-4]))
    assert len(Predictions.load(tmp_path / "*.csv")) == 4
    (tmp_path / "a.csv").write_text("".join(lines[:-4]))
    with pytest.raises(ValueError, match="the shards have no samples"):
        Predictions.load(tmp_path / "*.csv")
