"""``--by`` on the command line: tables, verdicts, thresholds per group, the report."""

import csv
import json

import pytest

from focalcal.metrics import evaluate
from focalcal.predictions import Predictions
from oracles.known_truth import logits_and_labels

HOSTILE = "<b>west</b>"


@pytest.fixture
def regional(tmp_path):
    """Three regions, of which one is far too sure; one sample stands alone."""
    logits, labels = logits_and_labels(600, 3)
    regions = ["north", "south", HOSTILE]
    region = ["lonely", *(regions[i % 3] for i in range(1, 600))]
    logits[[i for i, name in enumerate(region) if name == HOSTILE]] *= 4
    preds = Predictions.from_logits(logits, labels, groups={"region": region, "half": [i // 300 for i in range(600)]})
    preds.save(tmp_path / "test.parquet")
    with (tmp_path / "other.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["score_0", "score_1", "score_2", "truth", "region"])
        for row, label, name in zip(logits.softmax(1).tolist(), labels.tolist(), region, strict=True):
            writer.writerow([*row, label, name])
    return tmp_path


def test_a_table_per_column_and_the_worst_group_in_the_verdict(focalcal, regional):
    ran = focalcal("evaluate", regional / "test.parquet", "--by", "region", "--by", "half", "--bootstrap", 20)
    assert (ran.code, ran.err) == (0, "")
    text = " ".join(ran.out.split())
    assert f"By region (4 groups): {HOSTILE} fails the test of calibration" in text
    assert f"Worst: {HOSTILE} (miscalibrated" in text
    assert "By half (2 groups)" in text
    assert "1 group has fewer than 10 samples: shown, not tested." in text


def test_json_has_every_group(focalcal, regional):
    ran = focalcal("evaluate", regional / "test.parquet", "--by", "region", "--bootstrap", 20, "--json")
    found = json.loads(ran.out)
    expected = evaluate(Predictions.load(regional / "test.parquet"), by="region", bootstrap=20)
    assert found["by"] == json.loads(json.dumps(expected.to_dict()["by"]))
    assert found["by"]["region"]["worst"] == HOSTILE
    assert any("By region" in sentence for sentence in found["verdict"])


def test_any_column_of_a_table_will_do(focalcal, refused, regional):
    reading = ("--probs-key", "score_0,score_1,score_2", "--labels-key", "truth", "--bootstrap", 0)
    ran = focalcal("evaluate", regional / "other.csv", *reading, "--by", "region", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["by"]["region"]["worst"] == HOSTILE
    said = refused("evaluate", regional / "other.csv", *reading, "--by", "reigon")
    assert "'reigon', which --by names" in said


def test_every_group_has_to_meet_thresholds(focalcal, refused, regional):
    gates = ("--by", "region", "--each-group", "--max-ece", 0.15, "--bootstrap", 0, "--metrics", "ece,error")
    ran = focalcal("evaluate", regional / "test.parquet", *gates)
    assert ran.code == 1
    assert f"region {HOSTILE}: ece is" in " ".join(ran.err.split())
    assert "1 failed" in ran.out
    assert "1 of 4 thresholds are not judged" in " ".join(ran.out.split())
    content = json.loads(focalcal("evaluate", regional / "test.parquet", *gates, "--json").out)
    assert [one["group"] for one in content["group_gates"] if not one["met"]] == [HOSTILE]
    assert not content["gates_met"]
    assert "--each-group needs --by" in refused("evaluate", regional / "test.parquet", "--each-group")


def test_the_report_has_a_section_and_escapes_names(focalcal, regional):
    page = regional / "report.html"
    ran = focalcal("report", regional / "test.parquet", "--by", "region", "--out", page, "--bootstrap", 0)
    assert ran.code == 0, ran.err
    text = page.read_text(encoding="utf-8")
    assert "Group by group" in text
    assert "&lt;b&gt;west&lt;/b&gt;" in text
    assert HOSTILE not in text


def test_shards_are_grouped_as_one_file(focalcal, regional):
    preds = Predictions.load(regional / "test.parquet")
    folder = regional / "shards"
    folder.mkdir()
    preds.select(range(250)).save(folder / "a.parquet")
    preds.select(range(250, 600)).save(folder / "b.parquet")
    ran = focalcal("evaluate", f"{folder}/*.parquet", "--by", "region", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["by"]["region"]
    expected = evaluate(preds, by="region", bootstrap=0)
    assert found["worst"] == HOSTILE
    for name, group in expected.groups.items():
        assert found["groups"][name]["n"] == group.n
        assert found["groups"][name]["values"]["ece"] == pytest.approx(group["ece"], abs=1e-9)
