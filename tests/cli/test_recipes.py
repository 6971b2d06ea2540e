import json
import subprocess
import sys

import yaml

from focalcal.recipes import load_recipe, recipe_names


def test_the_list_has_every_recipe(focalcal):
    ran = focalcal("recipes")
    assert (ran.code, ran.err) == (0, "")
    rows = {line.split()[0]: line for line in ran.out.splitlines() if "/" in line and "`" not in line}
    assert list(rows) == list(recipe_names())
    for name, row in rows.items():
        recipe = load_recipe(name)
        cells = (name, recipe.model.name, recipe.loss, str(recipe.epochs), recipe.about.time)
        assert row.split() == " ".join(cells).split()


def test_the_list_as_json(focalcal):
    ran = focalcal("recipes", "--json")
    listed = json.loads(ran.out)["recipes"]
    assert (ran.code, [one["name"] for one in listed]) == (0, list(recipe_names()))
    keys = ["name", "data", "model", "loss", "epochs", "summary", "hardware", "time", "result"]
    assert all(list(one) == keys for one in listed)


def test_show_prints_a_recipe_that_can_be_trained(focalcal, tmp_path):
    ran = focalcal("recipes", "show", "tiny_imagenet/resnet50", "protocol=authors", "loss=brier")
    expected = load_recipe("tiny_imagenet/resnet50", ["protocol=authors", "loss=brier"])
    (tmp_path / "mine.yaml").write_text(ran.out, encoding="utf-8")
    assert (ran.code, ran.err) == (0, "")
    assert load_recipe(tmp_path / "mine.yaml") == expected
    assert yaml.safe_load(ran.out)["optimizer"]["lr"] == 0.035


def test_show_as_json(focalcal):
    ran = focalcal("recipes", "show", "digits/mlp", "--json", "loss=fl-3")
    assert json.loads(ran.out) == load_recipe("digits/mlp", ["loss=fl-3"]).model_dump(mode="json")


def test_bad_input_is_one_sentence(refused, tmp_path):
    assert "did you mean digits/mlp?" in refused("recipes", "show", "digits/mpl")
    assert "there is no key lr; did you mean optimizer.lr?" in refused("recipes", "show", "digits/mlp", "lr=1")
    assert "has 2 problems: epochs should" in refused("recipes", "show", "digits/mlp", "epochs=0", "seed=-1")
    assert "There is no recipe file" in refused("recipes", "show", tmp_path / "none.yaml")
    assert "recipes --help'" in refused("recipes", "digits/mlp")
    assert "recipes show --help'" in refused("recipes", "show")


def test_help_imports_nothing_slow():
    code = (
        "import sys; from focalcal.cli.recipes import recipes_app; "
        "print([name for name in ('torch', 'pydantic', 'yaml') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
