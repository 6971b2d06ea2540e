import pytest

from focalcal.paper import find_results
from focalcal.paper.run_plan import describe, measure_speed, needed_runs
from focalcal.recipes import load_recipe


@pytest.fixture(autouse=True)
def instant(monkeypatch):
    """Timing a step of a large network takes a while; one test does it."""
    monkeypatch.setattr("focalcal.paper.run_plan.measure_speed", lambda recipe: 100.0)


@pytest.mark.parametrize(
    ("name", "recipes", "losses"),
    [
        ("ece", 11, 6),
        ("ece-variants", 11, 7),
        ("nll", 11, 11),
        ("top5", 5, 5),
        ("ood-auroc", 2, 6),
        ("s99", 2, 3),
        ("early-stopping", 1, 2),
        ("training", 1, 1),
        ("focal-training", 1, 4),
        ("bars", 9, 6),
    ],
)
def test_exactly_the_runs_that_it_needs(tmp_path, name, recipes, losses):
    listed = list(describe(needed_runs(name, tmp_path, seeds=2)))
    assert len({one["recipe"] for one in listed}) == recipes
    assert len(listed) == recipes * losses * 2
    assert all(one["state"] == "to be run" for one in listed)


def test_hours_from_the_speed(tmp_path):
    (one, _) = describe(needed_runs("early-stopping", tmp_path))
    assert one["hours"] == pytest.approx(350 * 45000 / 100 / 3600)


def test_finished_runs_are_skipped_and_others_in_the_folder_kept(trained, tmp_path):
    place = tmp_path / "digits_mlp"
    place.symlink_to(trained)
    (needed,) = needed_runs("gradient-factor", tmp_path, only="digits/mlp")
    assert needed.losses == ("cross-entropy", "fl-3")
    assert needed.plan.losses == ("cross-entropy", "fl-3", "fl-1")
    listed = list(describe([needed]))
    assert [(one["loss"], one["state"], one["hours"]) for one in listed] == [
        ("cross-entropy", "finished", 0.0),
        ("fl-3", "finished", 0.0),
    ]
    assert listed[0]["estimate"] == "its own epochs"


def test_time_from_results_of_the_same_network(trained, tmp_path):
    (one, *_) = describe(needed_runs("training", tmp_path, only="digits/mlp", results=find_results([trained])))
    assert one["estimate"] == "epochs of results/digits"
    (unknown,) = describe(needed_runs("training", tmp_path, only="sst/tree_lstm"))
    assert unknown["hours"] is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("optimum", "needs no run"),
        ("eec", "did you mean 'ece'"),
    ],
)
def test_what_cannot_be_run(tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        needed_runs(name, tmp_path)


def test_translation_needs_three_losses_of_its_own_recipe(tmp_path):
    listed = list(describe(needed_runs("translation", tmp_path)))
    assert [(one["recipe"], one["loss"]) for one in listed] == [
        ("wmt14/transformer_base", loss) for loss in ("cross-entropy", "ls-0.1", "fl-1")
    ]
    assert all(one["hours"] > 0 and one["estimate"].endswith("timed here") for one in listed)
    (small, *_) = describe(needed_runs("bleu-temperature", tmp_path, only="multi30k/transformer_tiny"))
    assert small["recipe"] == "multi30k/transformer_tiny"


def test_an_unknown_recipe(tmp_path):
    with pytest.raises(ValueError, match=r"There is no recipe 'cifar10/resnet5'; did you mean 'cifar10/resnet50'"):
        needed_runs("ece", tmp_path, only="cifar10/resnet5")


@pytest.mark.parametrize("recipe", ["cifar10/resnet20", "wmt14/transformer_base"])
def test_a_step_is_timed(recipe):
    assert 0 < measure_speed(load_recipe(recipe)) < 1e7
