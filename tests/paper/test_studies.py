import json
import shutil
from pathlib import Path

import pytest

from focalcal.paper import find_results
from focalcal.paper.cells import Measured
from focalcal.paper.claims import judge
from focalcal.paper.figures import FIGURES, build_figure
from focalcal.paper.linear_model import FLIPPED, make_points, train_both, train_linear
from focalcal.paper.loss_comparison import figure, is_lower
from focalcal.paper.out_of_distribution import severity_records
from focalcal.paper.pages import check_readme, update_readme, write_figures, write_headlines, write_pages
from focalcal.paper.studies import STUDIES, find_study, study_markdown, study_records
from focalcal.paper.table_formats import write_tables
from focalcal.paper.temperature_choice import temperature_records
from focalcal.sweeps.result_rows import Row
from paper.small_results import sweep_rows


def test_differences_are_judged_by_intervals_or_seeds():
    assert is_lower(Measured(1.0, 3, 0.1), Measured(2.0, 3, 0.1)) is True
    assert is_lower(Measured(2.0, 3, 0.1), Measured(1.0, 3, 0.1)) is False
    assert is_lower(Measured(1.0, 3, 1.0), Measured(2.0, 3, 1.0)) is None
    assert is_lower(Measured(3.0, interval=(2.0, 4.0)), Measured(1.0, interval=(0.5, 1.5))) is False
    # Intervals of half-width 1 each overlap at a distance of 1.5, which is more than √2.
    assert is_lower(Measured(1.0, interval=(0.0, 2.0)), Measured(2.5, interval=(1.5, 3.5))) is True
    assert is_lower(Measured(1.0, interval=(0.0, 2.0)), Measured(2.4, interval=(1.4, 3.4))) is None
    assert is_lower(Measured(1.0), Measured(2.0)) is None


def test_figures_are_those_of_the_selected_epoch_and_data(result_folder):
    rows = [
        *sweep_rows(seeds=1),
        Row("SST Binary", "Tree-LSTM", "fl-3", 0, "last", "ece", "pre", 99.0),
        Row("SST Binary/SVHN", "Tree-LSTM", "fl-3", 0, "best", "ece", "pre", 50.0),
    ]
    (result,) = find_results([result_folder(rows=rows)])
    assert figure(result, "fl-3", "ece", "pre").value == 7.0
    assert figure(result, "fl-3", "ece", "pre", data="SVHN").value == 50.0
    assert figure(result, "brier", "ece", "pre") is None


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "theory"])
def test_every_study_of_a_trained_sweep(trained, name):
    results = find_results([trained])
    study = find_study(name)
    text = study_markdown(study, results, study.claims(results))
    assert "| The paper says | Here | Numbers |" in text
    content = study_records(find_study(name), results)
    assert content["claims"]
    json.dumps(content, default=str)


def test_claims_follow_the_numbers(result_folder):
    rows = [*sweep_rows(losses=("cross-entropy",)), *(_lowered(row) for row in sweep_rows(losses=("flsd-53",)))]
    results = find_results([result_folder(rows=rows)])
    claims = {claim.text: claim for claim in find_study("calibration").claims(results)}
    lower = claims["FLSD-53 has a lower ECE than cross-entropy before temperature scaling."]
    assert (lower.verdict, lower.evidence) == ("holds", "sst: 1.50 ± 0.71 against 7.50 ± 0.71.")
    assert (
        claims["FL-3 has a lower ECE than cross-entropy before temperature scaling."].verdict == "cannot be tested here"
    )
    assert claims["FLSD-53 has a best temperature near 1, from 0.9 to 1.1."].verdict == "does not hold"


def test_a_difference_that_may_be_chance_decides_nothing(result_folder):
    rows = [row for loss in ("cross-entropy", "flsd-53") for row in sweep_rows(losses=(loss,), seeds=1)]
    found = find_results([result_folder(rows=rows)])
    claims = {claim.text: claim for claim in find_study("calibration").claims(found)}
    lower = claims["FLSD-53 has a lower ECE than cross-entropy before temperature scaling."]
    assert (lower.verdict, lower.evidence) == ("undecided", "sst: 7.00 [6.00, 8.00] against 7.00 [6.00, 8.00].")
    cost = "Focal loss does not cost accuracy: the error of FLSD-53 is not significantly above cross-entropy's."
    assert claims[cost].verdict == "holds"


def test_verdicts_count_what_is_undecided():
    cases = [(True, "a"), (None, "b"), (False, "c")]
    assert judge("…", cases).verdict == "holds in 1 of 3, undecided in 1"
    assert judge("…", cases).evidence == "a (yes); b (undecided); c (no)."
    assert judge("…", cases).example() == "yes: a; no: c; undecided: b"
    assert judge("…", cases[1:]).verdict == "does not hold in 1 of 2, undecided in 1"
    assert judge("…", [cases[2]] * 2).verdict == "does not hold"


def test_a_claim_on_training_holds_with_every_seed(result_folder):
    folder = result_folder(rows=sweep_rows(losses=("cross-entropy",)))
    rising, falling = (
        [
            {"epoch": place, "train": {"nll": 1 - place / 4}, "test": dict.fromkeys(_MEASURED, nll)}
            for place, nll in enumerate(nlls)
        ]
        for nlls in ((0.5, 0.3, 0.4), (0.5, 0.4, 0.3))
    )
    for seed, epochs in enumerate((rising, falling)):
        file = folder / "histories" / f"cross-entropy-seed-{seed}.jsonl"
        file.write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs))
    claim = find_study("miscalibration").claims(find_results([folder]))[0]
    assert claim.verdict == "does not hold"
    assert claim.evidence == "sst: 0.30 after epoch 2, 0.40 after 3; training 0.75, 0.50 (with 1 of 2 seeds)."


_MEASURED = ("nll", "ece", "error", *(f"{what}_{part}" for what in ("nll", "entropy") for part in ("right", "wrong")))


def _lowered(row):
    return Row(**{**vars(row), "value": row.value - 6}) if row.metric == "ece" and row.value > 6 else row


def test_results_without_histories_have_studies_too(result_folder, tmp_path):
    rows = sweep_rows(losses=("cross-entropy", "fl-3", "fl-7"))
    bare, emptied = result_folder("bare", rows), result_folder("emptied", rows)
    shutil.rmtree(bare / "histories")
    for file in (emptied / "histories").iterdir():
        file.unlink()
    results = find_results([bare, emptied])
    for study in STUDIES.values():
        if study.name != "theory":
            study_markdown(study, results, study.claims(results))
    (shown,) = find_study("large-gamma").records(results).values()
    assert {(one["results"], one["loss"], one["training_error"]) for one in shown} == {
        (name, loss, None) for name in ("bare", "emptied") for loss in ("cross-entropy", "fl-3", "fl-7")
    }
    with pytest.raises(ValueError, match=r"cross-entropy, seed 0 of SST Binary has no history: there is no .*emptied"):
        build_figure("training", [emptied])


def test_an_unknown_study():
    with pytest.raises(ValueError, match="There is no study 'odd'; did you mean 'ood'"):
        find_study("odd")


def test_both_temperatures_of_every_run(trained):
    records = temperature_records(find_results([trained]))
    assert [record["loss"] for record in records] == ["cross-entropy", "fl-1", "fl-3"]
    assert all(record["nll_by_nll"] > 0 and record["temperature_by_nll"] > 0 for record in records)


def test_severities_stand_in_order(result_folder):
    head = ("ResNet-20", "cross-entropy", 0, "last")
    names = ["CIFAR-10", *(f"CIFAR-10/CIFAR-10-C severity {n}" for n in (1, 2, 3, 4)), "CIFAR-10/CIFAR-10-C"]
    rows = [Row(name, *head, "ece", "pre", float(place)) for place, name in enumerate(names)]
    records = severity_records(find_results([result_folder(rows=rows)]))
    assert [(one["severity"], one["ece_pre"]) for one in records] == [(n, float(n)) for n in range(6)]


def test_a_difference_of_auroc_that_may_be_chance_decides_nothing(result_folder):
    rows = []
    for loss, auroc, low, high in (("cross-entropy", 80.0, 79.0, 81.0), ("fl-3", 80.5, 79.5, 81.5)):
        rows.append(Row("CIFAR-10", "ResNet-20", loss, 0, "last", "error", "", 10.0))
        rows += [
            Row("CIFAR-10/SVHN", "ResNet-20", loss, 0, "last", "ood_auroc", scaling, auroc, low, high, "delong")
            for scaling in ("pre", "post")
        ]
    rows.append(Row("CIFAR-10/SVHN", "ResNet-20", "brier", 0, "last", "ood_auroc", "post", 70.0, 69.0, 71.0, "delong"))
    rows.append(Row("CIFAR-10/SVHN", "ResNet-20", "flsd-53", 0, "last", "ood_auroc", "pre", 84.0, 83.0, 85.0, "delong"))
    claims = find_study("ood").claims(find_results([result_folder("c", rows)]))
    assert [claim.verdict for claim in claims] == ["holds", "undecided", "holds", "cannot be tested here"]
    assert claims[0].evidence.startswith("c, SVHN: FLSD-53 84.00 [83.00, 85.00] against Cross-entropy 80.00 [79.00")


def test_the_linear_model_is_the_appendix_s():
    train, test = make_points(0)
    assert (len(train.y), len(test.y)) == (4000, 1000)
    assert set(train.y) == {-1.0, 1.0}
    wrong_side = (train.x[:, 0] * train.y < 0).mean()
    assert FLIPPED - 0.03 < wrong_side < FLIPPED + 0.1
    runs = train_both(0)
    assert runs["cross-entropy"].weight_norms[-1] > runs["fl-1"].weight_norms[-1]
    assert runs["cross-entropy"].mistake_confidence.mean() > runs["fl-1"].mistake_confidence.mean()
    again = train_linear(train, test, 0.0)
    assert again.weights.tolist() == runs["cross-entropy"].weights.tolist()


_ROOT = Path(__file__).parents[2]


def test_a_page_names_no_folder_of_the_machine_where_data_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FOCALCAL_OFFLINE", "1")
    monkeypatch.setenv("FOCALCAL_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("focalcal.paper.pages.FIGURES", {"qualitative": FIGURES["qualitative"]})
    said = write_figures(find_results([_ROOT / "results" / "cifar10_resnet20"]), tmp_path / "figures")
    assert said["qualitative"].startswith("not drawn: it needs the data set")
    assert str(tmp_path) not in said["qualitative"]
    assert str(tmp_path / "data") in capsys.readouterr().err


@pytest.mark.slow
def test_the_committed_pages_are_those_of_the_committed_results(tmp_path):
    """focalcal paper pages --out docs/paper --readme README.md makes them again."""
    results = find_results([_ROOT / "results"])
    docs = _ROOT / "docs" / "paper"
    claims = {name: study.claims(results) for name, study in STUDIES.items() if name != "theory"}  # theory: rounding
    for name, found in claims.items():
        assert (docs / f"{name}.md").read_text("utf-8").startswith(study_markdown(STUDIES[name], results, found)), name
    assert write_headlines(claims) in (_ROOT / "README.md").read_text("utf-8")
    for table in write_tables(results, tmp_path):
        assert (docs / "tables" / table.name).read_text("utf-8") == table.read_text("utf-8"), table.name


def test_pages(trained, tmp_path):
    pages, headlines = write_pages(find_results([trained]), tmp_path / "paper", progress=False)
    assert [page.name for page in pages] == [*(f"{name}.md" for name in STUDIES), "index.md"]
    index = (tmp_path / "paper" / "index.md").read_text(encoding="utf-8")
    assert "[training](figures/training.png)" in index
    assert "| ood-roc | not drawn: " in index
    assert len(list((tmp_path / "paper" / "tables").iterdir())) == 17
    for page in pages:
        for part in page.read_text(encoding="utf-8").split("](")[1:]:
            link = part.partition(")")[0]
            assert (page.parent / link).is_file(), link
    assert headlines.count("\n") == 13
    readme = tmp_path / "README.md"
    readme.write_text(
        "a\n<!-- claims: made by focalcal paper pages -->\nan earlier table\n<!-- end of claims -->\nb\n",
        encoding="utf-8",
    )
    update_readme(readme, headlines)
    text = readme.read_text(encoding="utf-8")
    assert "earlier claims" not in text
    assert text.startswith("a\n")
    assert text.endswith("b\n")
    readme.write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="has no place for the claims"):
        update_readme(readme, headlines)
    with pytest.raises(ValueError, match="has no place for the claims"):
        check_readme(readme)
