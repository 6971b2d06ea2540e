"""Sweeps of translators: token calibration and BLEU in one table, translations made once, curves in a file."""

import pytest

from focalcal.data.parallel_text import read_lines
from focalcal.metrics.streaming.token_calibration import evaluate_tokens
from focalcal.predictions.token_predictions import TokenPredictions
from focalcal.sweeps import sweep
from focalcal.sweeps.result_rows import read_rows
from focalcal.sweeps.translated_run import CURVE, read_curves
from focalcal.translation import measure_bleu

pytestmark = pytest.mark.slow

CHANGES = {"data.synthetic": 30, "epochs": 2, "batch_tokens": 120, "schedule.warmup_epochs": 0.5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def result(folder):
    recipe, losses = "multi30k/transformer_tiny", ["cross-entropy", "fl-1"]
    return sweep(recipe, CHANGES, losses=losses, out=folder, jobs=2, progress=False)


def test_rows_have_tokens_and_bleu_before_and_after(result, folder):
    rows = read_rows(folder / "table.csv")
    found = {(row.method, row.metric, row.temperature_scaling): row for row in rows}
    tokens = TokenPredictions.load(folder / "fl-1" / "seed-0" / "predictions" / "test.safetensors")
    post = found["fl-1", "ece", "post"]
    assert post.temperature is not None
    expected = 100 * evaluate_tokens(tokens, temperature=post.temperature)["ece"]
    assert post.value == pytest.approx(expected, rel=1e-5)
    assert all(row.low <= row.value <= row.high for row in rows if row.metric == "ece")
    assert {row.interval_method for row in rows if row.metric == "bleu"} == {"percentile"}
    assert {row.dataset for row in rows} == {"Multi30k En-De"}
    assert found["fl-1", "error", ""].value == pytest.approx(100 * evaluate_tokens(tokens)["error"], rel=1e-5)


def test_curves_have_every_temperature_of_every_run(result, folder):
    curves = read_curves(folder / "curves.csv")
    assert [one.temperature for one in curves if one.method == "fl-1"] == list(CURVE)
    texts = read_lines(folder / "fl-1" / "seed-0" / "translations" / "test-T0.5.txt")
    references = result.curves and curves[16]
    assert references.bleu == pytest.approx(measure_bleu(texts, _references(folder)).score, rel=1e-5)


def _references(folder):
    from focalcal.training import open_run

    return list(open_run(folder / "fl-1" / "seed-0").data().evaluation["test"].references)


def test_the_table_says_what_it_shows(result):
    text = result.to_markdown()
    assert "BLEU" in text
    assert "sentences as clusters" in text
    assert any("changes BLEU by" in sentence for sentence in result.verdict)
    assert any("paired bootstrap against cross-entropy" in sentence for sentence in result.verdict)


def test_translations_are_not_made_again(result, folder):
    file = folder / "fl-1" / "seed-0" / "translations" / "test-T1.txt"
    lines = read_lines(file)
    file.write_text("".join("x\n" for _ in lines))
    again = sweep(
        "multi30k/transformer_tiny",
        CHANGES,
        losses=["cross-entropy", "fl-1"],
        out=folder,
        measure_only=True,
        progress=False,
    )
    assert {row.value for row in again.rows["ece"] if (row.method, row.metric) == ("fl-1", "bleu")} >= {0.0}
    file.write_text("".join(f"{line}\n" for line in lines))


def test_damaged_curves_are_named(tmp_path):
    file = tmp_path / "curves.csv"
    file.write_text("method,seed\nfl-1,0\n")
    with pytest.raises(ValueError, match="does not hold curves of translators"):
        read_curves(file)
