from pathlib import Path

import pytest

from focalcal.sweeps import Plan


def test_first_seeds_of_all_losses_come_first():
    plan = Plan("digits/mlp", ("epochs=2",), ("fl-3", "brier"), (0, 1), Path("x"))
    assert [(run.loss, run.seed) for run in plan.runs()] == [("fl-3", 0), ("brier", 0), ("fl-3", 1), ("brier", 1)]
    run = next(iter(plan.runs()))
    assert (run.recipe.loss, run.recipe.seed, run.recipe.epochs) == ("fl-3", 0, 2)
    assert run.path == Path("x/fl-3/seed-0")


def test_a_recipe_may_differ_by_loss():
    plan = Plan("cifar10/resnet50", ("protocol=authors",), ("cross-entropy", "brier"), (0,), Path("x"))
    assert [run.recipe.reduction for run in plan.runs()] == ["sum", "mean"]


@pytest.mark.parametrize(
    ("changes", "losses", "seeds", "sentence"),
    [
        ((), (), (0,), "There is no loss to train with"),
        ((), ("fl-3",), (), "There is no seed to train with"),
        ((), ("fl-3", "fl-3"), (0,), "The loss fl-3 is given twice"),
        (("loss=brier",), ("fl-3",), (0,), "loss=brier does not belong here"),
        (("seed=3",), ("fl-3",), (0,), "seed=3 does not belong here"),
    ],
)
def test_senseless_plans_are_refused(changes, losses, seeds, sentence):
    with pytest.raises(ValueError, match=sentence):
        Plan("digits/mlp", changes, losses, seeds, Path("x"))
