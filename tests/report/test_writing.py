import json
import re
import sys

import pytest
import torch

from focalcal.base.files import file_sha256
from focalcal.calibrators import TemperatureScaling
from focalcal.metrics import ece, evaluate, ood_auroc
from focalcal.predictions import Predictions, open_predictions
from focalcal.report import model_sources as sources_module
from focalcal.report import write_report
from focalcal.report.content import safe_json
from focalcal.report.model_sources import model_sources
from focalcal.training import train
from oracles.real_files import real_predictions
from report.conftest import HOSTILE, make_run, world

pytestmark = pytest.mark.slow


def embedded(path, which):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(rf'<script type="application/json" id="{which}">(.*?)</script>', text, re.S)[1])


def visible(path):
    """What stands before the data and the scripts."""
    return path.read_text(encoding="utf-8").split('<script type="application/json"')[0]


def test_numbers_are_those_of_the_library(pages):
    model = embedded(pages("single"), "numbers")["models"][0]
    result = evaluate(world(800, 4, class_names=HOSTILE, split="test"), bootstrap=100)
    assert model["before"] == json.loads(json.dumps(result.to_dict()))
    assert model["after"]["values"]["ece"] < 0.5 * model["before"]["values"]["ece"]
    assert model["temperature"]["value"] == pytest.approx(1.83, abs=0.1)


def test_the_verdict_is_in_words(pages):
    text = visible(pages("single"))
    assert re.search(r"<h2[^>]*>Over-confident by 13.8 points</h2>", text)
    assert "repairs most of it: ECE falls from 14.98% to" in text
    assert "Then a perfectly calibrated model would show" in text
    assert "no miscalibration detected" in text
    assert "fitted on 800 validation samples" in text


def test_a_cross_fit_is_called_so(pages):
    assert "cross-fitted: each fifth of these samples" in visible(pages("many_classes"))


def test_no_name_becomes_markup(pages):
    text = visible(pages("single")) + visible(pages("comparison"))
    assert "<i>model</i>" not in text
    assert "&lt;i&gt;model&lt;/i&gt;" in text
    assert "<b>not bold</b>" not in text
    whole = pages("single").read_text(encoding="utf-8")
    assert HOSTILE[0] not in whole
    assert embedded(pages("single"), "data")["classNames"] == [list(HOSTILE)]


def test_json_cannot_end_a_script():
    hostile = {"a": "</script><!--&\u2028\u2029"}
    assert not re.search("[<>&\u2028\u2029]", safe_json(hostile))
    assert json.loads(safe_json(hostile)) == hostile


@pytest.mark.parametrize("name", ["single", "comparison", "many_classes", "tiny"])
def test_the_file_is_small_and_alone(pages, name):
    text = pages(name).read_text(encoding="utf-8")
    assert len(text.encode()) < 8_000_000
    own = visible(pages(name)) + text.rsplit("<script>", 1)[1]
    assert not re.search(r"https?://|<link|@import|<script src", own)


def test_twelve_models_of_a_thousand_classes(tmp_path):
    models = {f"model {i}": world(100, 1000, seed=i) for i in range(12)}
    out = write_report(models, tmp_path / "r.html", bootstrap=0)
    assert out.stat().st_size < 8_000_000
    models["one too many"] = world(10, 2)
    with pytest.raises(ValueError, match="There are 13 models; one report compares at most 12"):
        write_report(models, tmp_path / "r.html")


def test_a_comparison_says_what_is_shown(pages):
    numbers, text = embedded(pages("comparison"), "numbers"), visible(pages("comparison"))
    found = {(d["metric"], d["when"]): d for d in numbers["differences"]}
    assert found["ece", "before"]["verdict"] == "flsd-53 has the lower ece"
    assert set(found) >= {("error", "before"), ("nll", "after"), ("ece", "after")}
    assert "significant: <bdi>flsd-53</bdi> is lower" in text


def test_other_samples_are_not_compared(tmp_path):
    out = write_report([world(200, 3), world(150, 3, seed=4)], tmp_path / "r.html", bootstrap=50)
    assert "Differences are not tested, because" in visible(out)


def test_a_run_brings_everything_with_it(pages, tmp_path):
    model = embedded(pages("comparison"), "numbers")["models"][0]
    assert model["name"] == "cross-entropy"
    assert model["temperature"]["source"] == "val"
    run = make_run(tmp_path / "run", seed=1, sharpness=2.5)
    inside, outside = (Predictions.load(run / "predictions" / f"{name}.safetensors") for name in ("test", "svhn"))
    assert model["ood"]["svhn"]["auroc"] == pytest.approx(ood_auroc(inside, outside))
    curves = embedded(pages("comparison"), "data")["models"][0]["curves"]
    assert curves["values"]["val"]["ece"] == [0, 0.02, 0.04, 0.06, 0.08]
    assert curves["values"]["test"]["ece"] == [None, None, None, None, 0.08]
    assert curves["gammas"] == {"3": [0.8] * 5, "5": [0.2] * 5}


def test_files_and_settings_are_recorded(tmp_path):
    world(100, 3).save(tmp_path / "test.npz")
    out = write_report(tmp_path / "test.npz", tmp_path / "r.html", bootstrap=50, seed=3, command="focalcal report <x>")
    numbers = embedded(out, "numbers")
    assert numbers["files"][0]["uses"] == [{"model": "test.npz", "role": "predictions"}]
    assert numbers["files"][0]["sha256"] == file_sha256(tmp_path / "test.npz")
    assert numbers["settings"] == {"bins": 15, "resamples": 50, "level": 0.9, "seed": 3, "temperature by": "NLL"}
    assert "focalcal report &lt;x&gt;" in visible(out)
    assert str(tmp_path) not in out.read_text(encoding="utf-8")


def test_the_same_input_gives_the_same_bytes(tmp_path):
    pages = [write_report(world(100, 3), tmp_path / f"{i}.html", bootstrap=50).read_bytes() for i in range(2)]
    assert pages[0] == pages[1]


def test_a_large_file_is_read_in_blocks(tmp_path, monkeypatch):
    preds = world(3000, 4, ids=[f"i{i}" for i in range(3000)])
    preds.save(tmp_path / "large.safetensors")
    whole = embedded(write_report(tmp_path / "large.safetensors", tmp_path / "a.html", bootstrap=50), "data")
    monkeypatch.setattr(sources_module, "READ_WHOLE_VALUES", 100)
    monkeypatch.setattr(sys.modules[evaluate.__module__], "READ_WHOLE_VALUES", 100)
    blocks = embedded(write_report(tmp_path / "large.safetensors", tmp_path / "b.html", bootstrap=50), "data")
    a, b = whole["models"][0], blocks["models"][0]
    for name in ("classes", "mistakes", "confusions"):
        assert a[name] == b[name]
    assert b["stops"][b["neutral"]]["width"]["15"]["ece"] == pytest.approx(ece(preds), abs=1e-6)
    assert "The file was read in blocks" in visible(tmp_path / "b.html")


def test_ood_predictions_by_name(tmp_path):
    inside, outside = world(200, 3), world(100, 3, seed=1, sharpness=0.2)
    out = write_report({"m": inside}, tmp_path / "r.html", ood={"other <data>": outside}, bootstrap=0)
    found = embedded(out, "numbers")["models"][0]["ood"]["other <data>"]
    assert found["auroc"] == pytest.approx(ood_auroc(inside, outside))
    with pytest.raises(ValueError, match="belong to one model"):
        write_report([inside, inside], tmp_path / "r.html", ood={"x": outside})


@pytest.mark.parametrize("labels", ["soft", "weighted", "infinite"])
def test_unusual_predictions(tmp_path, labels):
    preds = world(120, 3)
    if labels == "soft":
        preds = Predictions.from_logits(
            preds.values, torch.nn.functional.one_hot(preds.labels, 3) * 3 + 1, labels_are="counts"
        )
    elif labels == "weighted":
        preds = Predictions.from_logits(preds.values, preds.labels, weights=torch.arange(120) % 3)
    else:
        probs = torch.tensor([[1.0, 0.0, 0.0]]).repeat(120, 1)
        preds = Predictions.from_probs(probs, preds.labels)
    out = write_report(preds, tmp_path / "r.html", bootstrap=50)
    assert embedded(out, "data")["models"][0]["samples"] == (80 if labels == "weighted" else 120)


def test_a_real_network(tmp_path):
    out = write_report({"net": real_predictions("wideresnet-16-4-cifar-10")}, tmp_path / "r.html", bootstrap=50)
    model = embedded(out, "numbers")["models"][0]
    assert model["temperature"]["value"] == pytest.approx(2.05, abs=0.02)
    assert (model["before"]["values"]["ece"], model["after"]["values"]["ece"]) == pytest.approx(
        (0.0537, 0.006), abs=2e-3
    )
    assert "Over-confident by 5.4 points" in visible(out)


def test_names_of_sources(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        world(30, 3).save(tmp_path / folder / "test.npz")
    paths = [tmp_path / folder / "test.npz" for folder in ("a", "b")]
    assert [source.name for source in model_sources(paths)] == ["a/test.npz", "b/test.npz"]
    assert [source.name for source in model_sources([paths[0], paths[0]])] == ["test.npz (1)", "test.npz (2)"]
    assert [source.name for source in model_sources({"x": paths[0]})] == ["x"]
    assert [source.name for source in model_sources(open_predictions(paths[0]))] == ["test.npz"]


def test_what_cannot_be_read(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"a folder without predictions/test\.safetensors"):
        write_report(tmp_path / "empty", tmp_path / "r.html")
    with pytest.raises(ValueError, match="nothing to report on"):
        write_report([], tmp_path / "r.html")
    with pytest.raises(ValueError, match="2 validation predictions for 1 models"):
        write_report(world(30, 3), tmp_path / "r.html", val=[world(30, 3), world(30, 3)])
    with pytest.raises(ValueError, match="no model 'y'"):
        write_report({"x": world(30, 3)}, tmp_path / "r.html", val={"y": world(30, 3)})
    assert not (tmp_path / "r.html").exists()


def test_a_configuration_that_is_no_text_is_named(tmp_path):
    run = make_run(tmp_path / "run", seed=1, sharpness=2.0)
    (run / "config.yaml").write_bytes(b"\x80\xff")
    with pytest.raises(ValueError, match=r"config\.yaml is not UTF-8 text"):
        write_report(run, tmp_path / "r.html", bootstrap=0)


def test_a_torn_history_is_noted_on_the_page(tmp_path):
    run = make_run(tmp_path / "run", seed=1, sharpness=2.0)
    with open(run / "history.jsonl", "a", encoding="utf-8") as file:
        file.write('{"epoch": 5, "tr')
    assert "line of history.jsonl (line 6) is not complete" in visible(
        write_report(run, tmp_path / "r.html", bootstrap=0)
    )


def test_what_is_read_is_never_overwritten(tmp_path):
    run = make_run(tmp_path / "run", seed=1, sharpness=2.0)
    (run / "link.html").symlink_to(run / "config.yaml")
    (run / "hard.html").hardlink_to(run / "predictions" / "test.safetensors")
    world(30, 4, seed=7).save(tmp_path / "val.npz")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("predictions/val.safetensors", "history.jsonl", "config.yaml", "link.html", "hard.html", "../val.npz"):
        with pytest.raises(ValueError, match="write to another name"):
            write_report(run, run / name, val=tmp_path / "val.npz", bootstrap=0)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    (run / "report.html").write_text("the last one")
    assert "Calibration of run" in visible(write_report(run, run / "report.html", bootstrap=0))


def test_names_of_classes_can_be_told_apart(tmp_path):
    preds = world(60, 4, class_names=["same", "same", " ", "ant"])
    out = write_report(preds, tmp_path / "r.html", bootstrap=0)
    assert embedded(out, "data")["classNames"] == [["same (0)", "same (1)", "(class 2)", "ant"]]
    with pytest.raises(ValueError, match="empty name"):
        write_report({"": preds}, tmp_path / "r.html", bootstrap=0)


def test_six_models_are_compared_with_the_best(tmp_path):
    models = {f"m{i}": world(60, 3, sharpness=1.0 + i) for i in range(6)}
    out = write_report(models, tmp_path / "r.html", bootstrap=20)
    assert "each is compared with the best by NLL only: <bdi>m0</bdi>." in visible(out)
    differences = embedded(out, "numbers")["differences"]
    assert len(differences) > 0
    assert all("m0" in difference["names"] for difference in differences)


def test_a_file_is_listed_once_with_its_uses(tmp_path):
    world(60, 3).save(tmp_path / "test.npz")
    world(60, 3, seed=1).save(tmp_path / "val.npz")
    sources = {"a": tmp_path / "test.npz", "b": tmp_path / "test.npz"}
    out = write_report(sources, tmp_path / "r.html", val=[tmp_path / "val.npz"] * 2, bootstrap=0)
    files = embedded(out, "numbers")["files"]
    assert [
        (file["name"].rpartition("/")[2], [(use["model"], use["role"]) for use in file["uses"]]) for file in files
    ] == [
        ("test.npz", [("a", "predictions"), ("b", "predictions")]),
        ("val.npz", [("a", "validation"), ("b", "validation")]),
    ]
    assert "<bdi>a</bdi>: <bdi>predictions</bdi><br><bdi>b</bdi>: <bdi>predictions</bdi>" in visible(out)


def test_the_same_samples_are_no_validation(tmp_path):
    preds = world(60, 3)
    with pytest.raises(ValueError, match="the predictions that are reported on"):
        write_report({"m": preds}, tmp_path / "r.html", val=world(60, 3), bootstrap=0)


def test_what_is_cheap_is_checked_first(tmp_path, monkeypatch):
    monkeypatch.setattr("focalcal.report.writing.measure_model", None)
    with pytest.raises(ValueError, match=r"out-of-distribution \(x\) predictions have 4 classes and the others 3"):
        write_report({"m": world(60, 3)}, tmp_path / "r.html", ood={"x": world(60, 4)})
    with pytest.raises(ValueError, match="its folder does not exist"):
        write_report("no file.npz", tmp_path / "none" / "r.html")


@pytest.mark.parametrize(("bins", "chosen"), [(25, 25), (20, 15), (10_000, 50)])
def test_the_bins_of_the_metrics_are_preselected(tmp_path, bins, chosen):
    text = visible(write_report(world(60, 3), tmp_path / "r.html", bins=bins, bootstrap=0))
    assert f"<option selected>{chosen}</option>" in text
    assert (f"The metrics have {bins}, which" in text) == (bins != chosen)


def test_runs_are_scaled_by_validation_ece_as_in_the_table_of_a_sweep(pages, tmp_path):
    numbers, text = embedded(pages("comparison"), "numbers"), visible(pages("comparison"))
    for model in numbers["models"]:
        val = Predictions.load(pages("comparison").parent / model["name"] / "predictions" / "val.safetensors")
        assert model["temperature"]["value"] == pytest.approx(TemperatureScaling(objective="ece").fit(val).temperature_)
        assert model["temperature"]["objective"] == "ece"
    assert "T, by validation ECE" in text
    run = make_run(tmp_path / "run", seed=1, sharpness=2.0)
    by_nll = embedded(write_report(run, tmp_path / "r.html", bootstrap=0, objective="nll"), "numbers")
    assert by_nll["models"][0]["temperature"]["objective"] == "nll"
    assert "by validation NLL, fitted on 500 validation samples" in visible(tmp_path / "r.html")
    with pytest.raises(ValueError, match="objective must be 'ece' or 'nll', not 'brier'"):
        write_report(run, tmp_path / "r.html", objective="brier")


def test_pictures_of_a_run_s_data_are_found_by_themselves(tmp_path):
    run = train("digits/mlp", out=tmp_path / "a", overrides={"epochs": 1, "data.train_size": 50}, progress=False)
    found = embedded(write_report(run.path, tmp_path / "r.html", bootstrap=0), "data")["images"]
    assert found
    without = write_report(run.path, tmp_path / "r.html", bootstrap=0, thumbnails={})
    assert embedded(without, "data")["images"] == {}
