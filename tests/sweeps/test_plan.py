from pathlib import Path

import pytest

from focalcal.sweeps import Plan, parse_grid, plan_grid


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


def test_recipes_and_grid_points_have_folders_of_their_own():
    grid = {"optimizer.lr": ["0.05", "0.1"], "epochs": ["2"]}
    plans = plan_grid(["digits/mlp", "fashion_mnist/cnn"], (), grid, ("fl-3",), (0,), Path("x"))
    assert [plan.out.as_posix() for plan in plans] == [
        f"x/{recipe}/optimizer.lr={rate},epochs=2"
        for recipe in ("digits_mlp", "fashion_mnist_cnn")
        for rate in (0.05, 0.1)
    ]
    (run,) = plans[1].runs()
    assert (run.recipe.optimizer.lr, run.recipe.epochs) == (0.1, 2)
    assert run.name == "digits/mlp, optimizer.lr=0.1, epochs=2, fl-3, seed 0"


@pytest.mark.parametrize(
    ("recipes", "changes", "grid", "sentence"),
    [
        ([], (), {}, "There is no recipe to train"),
        (["digits/mlp", "digits/mlp"], (), {}, "digits/mlp is given twice"),
        (["digits/mlp"], ("epochs=2",), {"epochs": ["3"]}, "epochs is both in the grid and a change"),
        (["digits/mlp"], (), {"epochs": ["3", "3"]}, "names a value twice"),
        (["digits/mlp"], (), {"epochs": []}, "is empty or"),
        (["digits/mlp"], (), {"seed": ["3"]}, "seed=3 does not belong here"),
    ],
)
def test_senseless_grids_are_refused(recipes, changes, grid, sentence):
    with pytest.raises(ValueError, match=sentence):
        plan_grid(recipes, changes, grid, ("fl-3",), (0,), Path("x"))


@pytest.mark.parametrize("text", ["optimizer.lr", "=3", "optimizer.lr=", "optimizer.lr=,"])
def test_a_grid_needs_a_key_and_values(text):
    with pytest.raises(ValueError, match=r"write key=value,value"):
        parse_grid(text)
