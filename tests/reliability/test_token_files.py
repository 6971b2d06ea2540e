"""Files of token predictions: a few numbers stand for many logits, which both readers bound by what is in the file."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from focalcal.predictions import Predictions
from focalcal.predictions.token_predictions import TOKENS_KEY, TokenPredictions
from reliability.corpus import token_predictions

READERS = {"logits": Predictions.load, "tokens": TokenPredictions.load}
ABOUT = {"version": 1, "split": "test"}


def write(path, about=ABOUT, **changes):
    parts = {
        "features": np.ones((6, 4), np.float32),
        "weight": np.ones((9, 4), np.float32),
        **{name: np.arange(6) % 3 for name in ("labels", "sentences", "positions")},
        "frequencies": np.arange(9),
        **changes,
    }
    there = {name: array for name, array in parts.items() if array is not None}
    save_file(there, path, {TOKENS_KEY: about if isinstance(about, str) else json.dumps(about)})


BAD = {
    "no size": {"features": np.ones((6, 0), np.float32), "weight": np.ones((2**40, 0), np.float32)},
    "bomb": {
        "features": np.ones((40_000, 1), np.float32),
        "weight": np.ones((40_000, 1), np.float32),
        "frequencies": None,
        **{name: np.zeros(40_000, np.int64) for name in ("labels", "sentences", "positions")},
    },
    "short": {"sentences": np.arange(3)},
    "square": {"positions": np.zeros((6, 2), np.int64)},
    "single": {"positions": np.array(3)},
    "another size": {"weight": np.ones((9, 5), np.float32)},
    "one axis": {"features": np.ones(6, np.float32)},
    "missing": {"weight": None},
    "too few frequencies": {"frequencies": np.arange(3)},
    "list": {"about": "[1]"},
    "nested": {"about": 5000 * "["},
    "split": {"about": {"version": 1, "split": [1]}},
    "later": {"about": {"version": 2, "split": "x"}},
    "other key": {"about": {**ABOUT, "splot": "x"}},
    "contents": {"about": {**ABOUT, "contents": 3}},
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_before_a_logit_is_computed(tmp_path, case, reader):
    path = tmp_path / "t.safetensors"
    write(path, **BAD[case])
    with pytest.raises(ValueError, match=r"t\.safetensors") as refused:
        READERS[reader](path)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.bool_, np.float16])
def test_weights_of_another_type(tmp_path, dtype):
    """Read as numbers where logits are asked for; the translator's own reader takes what it wrote."""
    write(tmp_path / "t.safetensors", weight=np.ones((9, 4), dtype))
    assert Predictions.load(tmp_path / "t.safetensors").num_classes == 9
    with pytest.raises(ValueError, match=r"its weight are torch\.\w+, where torch\.float32 is expected"):
        TokenPredictions.load(tmp_path / "t.safetensors")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"frequencies":{', b'"frequenciez":{'),
        (b'\\"split\\": \\"test\\"', b'\\"split\\": \\"tets\\"'),
        (b'\\"split\\": \\"test\\"', b'\\"splot\\": \\"test\\"'),
        (b'\\"contents\\"', b'\\"cintents\\"'),
    ],
)
def test_damage_that_loses_a_part_is_noticed(tmp_path, reader, before, after):
    path = tmp_path / "t.safetensors"
    token_predictions().save(path)
    assert READERS[reader](path).split == "test"
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))
    with pytest.raises(ValueError, match=r"t\.safetensors.* (damaged|corrupt)"):
        READERS[reader](path)


def test_a_file_of_an_older_version_is_read(tmp_path):
    write(tmp_path / "t.safetensors")
    assert READERS["tokens"](tmp_path / "t.safetensors").shape == (6, 9)
    assert READERS["logits"](tmp_path / "t.safetensors").groups
