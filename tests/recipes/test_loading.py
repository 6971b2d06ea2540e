import json

import pytest
import yaml

from focalcal.recipes import load_recipe, recipe_names

SMALL = "data: digits\nmodel: mlp\nepochs: 3\n"


@pytest.fixture
def written(tmp_path):
    def write(text, name="mine.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(name, overrides=()):
    with pytest.raises(ValueError) as refused:
        load_recipe(name, overrides)
    return str(refused.value)


def test_a_file_of_ones_own(written):
    path = written(SMALL)
    recipe = load_recipe(path)
    assert (recipe.name, recipe.data.name, recipe.epochs) == (str(path), "digits", 3)


def test_overrides_as_texts_and_as_mappings():
    texts = load_recipe("digits/mlp", ["optimizer.lr=1e-2", "data.train_size=100", "model.hidden=[8, 8]"])
    dotted = load_recipe("digits/mlp", {"optimizer.lr": 0.01, "data.train_size": 100, "model.hidden": [8, 8]})
    groups = load_recipe(
        "digits/mlp", {"optimizer": {"lr": 0.01}, "data": {"train_size": 100}, "model": {"hidden": (8, 8)}}
    )
    assert texts == dotted == groups
    assert (texts.optimizer.lr, texts.data.train_size, texts.model.hidden) == (0.01, 100, (8, 8))
    assert texts.optimizer.momentum == load_recipe("digits/mlp").optimizer.momentum


def test_values_may_hold_an_equals_sign():
    assert load_recipe("text/gp_cnn", ["data.path=a=b/my.csv"]).data.path == "a=b/my.csv"
    assert load_recipe("text/gp_cnn", ["data.label_column=a: [b"]).data.label_column == "a: [b"


@pytest.mark.parametrize("text", ["epochs", "=3", "optimizer.=3", ".lr=3"])
def test_what_is_no_change(text):
    assert refusal("digits/mlp", [text]).startswith(f"{text!r} is not a change of a recipe; write key=value")


def test_one_text_is_no_list_of_changes():
    with pytest.raises(TypeError, match="a list of texts or a mapping, got the text 'epochs=3'"):
        load_recipe("digits/mlp", "epochs=3")


def test_another_optimizer_starts_anew():
    recipe = load_recipe("cifar10/resnet50", ["optimizer.weight_decay=0.1", "optimizer=adam"])
    assert (recipe.optimizer.lr, recipe.optimizer.weight_decay) == (1e-3, 0.1)
    assert load_recipe("cifar10/resnet50", ["optimizer=adam"]).optimizer.weight_decay == 0.0
    assert load_recipe("cifar10/resnet50", ["optimizer=sgd"]) == load_recipe("cifar10/resnet50")


@pytest.mark.parametrize(("name", "lr"), [("sgd", 0.1), ("adam", 1e-3), ("adamw", 1e-3), ("adagrad", 0.05)])
def test_each_optimizer_has_its_usual_learning_rate(written, name, lr):
    assert load_recipe(written(SMALL), [f"optimizer={name}"]).optimizer.lr == lr
    assert load_recipe(written(SMALL), [f"optimizer={name}", "optimizer.lr=0.5"]).optimizer.lr == 0.5


def test_a_schedule_is_replaced_and_a_dotted_epoch_is_added():
    replaced = load_recipe("cifar10/resnet50", ["schedule.factors={5: 0.5}"])
    assert replaced.schedule.factors == {5: 0.5}
    added = load_recipe("cifar10/resnet50", ["schedule.factors.5=0.5", "schedule.factors.150=0.2"])
    assert added.schedule.factors == {5: 0.5, 150: 0.2, 250: 0.01}


def test_precision_may_be_a_number():
    assert load_recipe("digits/mlp", ["hardware.precision=32"]).hardware.precision == "32"


def test_extends_a_packaged_recipe_and_a_file_beside_it(written):
    written("extends: digits/mlp\nepochs: 7\nabout: {summary: longer}\n", "base.yaml")
    recipe = load_recipe(written("extends: base.yaml\nloss: fl-3\n"))
    assert (recipe.epochs, recipe.loss, recipe.model.name) == (7, "fl-3", "mlp")
    assert recipe.about.summary == ""
    assert load_recipe(written("extends: ../base.yaml\n", "deep/mine.yaml")).epochs == 7


def test_extending_itself_is_refused(written):
    first = written("extends: b.yaml\n", "a.yaml")
    second = written("extends: a.yaml\n", "b.yaml")
    assert refusal(first) == f"Recipe {first} extends itself: {first} → {second} → {first}."
    assert "extends itself" in refusal(written("extends: own.yaml\n", "own.yaml"))


def test_a_missing_base_is_named(written):
    path = written("extends: none.yaml\n")
    assert refusal(path) == f"There is no recipe file {path.parent / 'none.yaml'}, which {path} extends."
    path = written("extends: digits/mpl\n")
    assert refusal(path).startswith(f"There is no recipe digits/mpl, which {path} extends; did you mean digits/mlp?")
    assert "extends must be the name of one recipe, got ['a', 'b']" in refusal(written("extends: [a, b]\n"))


@pytest.mark.parametrize("name", ["digits/mpl", "../library/digits/mlp", "/digits/mlp", "nothing-like-it"])
def test_an_unknown_name(name):
    assert refusal(name).startswith(f"There is no recipe {name}")
    assert "`focalcal recipes` lists them" in refusal(name)


def test_an_empty_name():
    assert refusal("").startswith("The name of a recipe is empty; `focalcal recipes` lists them")


@pytest.mark.parametrize("name", [5, None, b"digits/mlp", ["digits/mlp"]])
def test_what_is_no_name(name):
    with pytest.raises(TypeError, match=f"^A recipe is given by its name or its file, got {type(name).__name__}\\.$"):
        load_recipe(name)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["epochs=2", "epochs=3"], "epochs"),
        (["epochs=2", "epochs=2"], "epochs"),
        (["optimizer.lr=1", "seed=1", "optimizer.lr=2"], "optimizer.lr"),
        (["optimizer=adam", "optimizer.name=sgd"], "optimizer.name"),
        (["schedule.factors={1: 0.1}", "schedule.factors={2: 0.1}"], "schedule.factors"),
        (["embedding_optimizer=null", "embedding_optimizer.lr=1"], "embedding_optimizer"),
        ({"optimizer": {"lr": 1}, "optimizer.lr": 2}, "optimizer.lr"),
    ],
)
def test_a_change_that_is_given_twice(changes, key):
    assert refusal("digits/mlp", changes) == f"The change of {key} is given twice; give it once."


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        (None, TypeError, "a list of texts or a mapping, got NoneType"),
        (5, TypeError, "a list of texts or a mapping, got int"),
        (b"epochs=3", TypeError, "a list of texts or a mapping, got bytes"),
        ([5], TypeError, "a text such as 'optimizer.lr=0.05', got 5"),
        ({5: 3}, TypeError, "The keys of a recipe are strings such as 'optimizer.lr', got 5"),
        ({"": 3}, ValueError, "'' is not a key of a recipe"),
        ({"optimizer..lr": 3}, ValueError, "'optimizer..lr' is not a key of a recipe"),
    ],
)
def test_changes_that_are_none(changes, kind, words):
    with pytest.raises(kind, match=words):
        load_recipe("digits/mlp", changes)


def test_bad_yaml_has_its_line(written):
    path = written("data: digits\nmodel: [mlp\nepochs: 3\n")
    assert refusal(path).startswith(f"Recipe {path} is not valid YAML at line 3: ")


def test_a_key_that_is_given_twice_has_its_line(written):
    path = written("data: digits\noptimizer:\n  lr: 0.1\n  lr: 0.2\nmodel: mlp\nepochs: 3\n")
    assert refusal(path) == f"Recipe {path} is not valid YAML at line 4: the key lr is given twice."


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.getcwd []\n", "a: &b [*b\n", "\x00", "a: 1\n\tb: 2\n"])
def test_other_bad_yaml_is_one_sentence(written, text):
    refused = refusal(written(text))
    assert "is not valid YAML" in refused
    assert refused.endswith(".")


@pytest.mark.parametrize(("text", "kind"), [("- a\n- b\n", "list"), ("just words\n", "str"), ("", "NoneType")])
def test_what_holds_no_keys(written, text, kind):
    path = written(text)
    assert refusal(path) == f"Recipe {path} must hold keys and values, not {kind}."


def test_not_utf8(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"data: \xff\xfe\n")
    assert refusal(path).startswith(f"Recipe {path} cannot be read: ")


def test_unknown_protocols():
    assert refusal("digits/mlp", ["protocol=x"]) == "Recipe digits/mlp has no protocol 'x'; it has none."
    refused = refusal("cifar10/resnet50", ["protocol=autors"])
    assert refused == "Recipe cifar10/resnet50 has no protocol 'autors'; it has authors."
    assert "has no protocol [1]" in refusal("cifar10/resnet50", ["protocol=[1]"])


def test_the_order_of_protocol_loss_and_changes(written):
    by_loss = "by_loss:\n  fl-3: {batch_size: 2, seed: 2}\n"
    protocol = "protocols:\n  p: {batch_size: 3, seed: 3, clip_norm: 3, by_loss: {fl-3: {batch_size: 4}}}\n"
    path = written(f"{SMALL}batch_size: 1\n{by_loss}{protocol}")
    assert load_recipe(path).batch_size == 1
    assert load_recipe(path, ["protocol=p"]).batch_size == 3
    both = load_recipe(path, ["protocol=p", "loss=fl-3"])
    assert (both.batch_size, both.seed, both.clip_norm) == (4, 2, 3.0)
    assert load_recipe(path, ["protocol=p", "loss=fl-3", "batch_size=5"]).batch_size == 5


@pytest.mark.parametrize(
    ("variants", "sentence"),
    [
        (
            "by_loss: {cross-entropy: {loss: brier}}",
            "by_loss.cross-entropy cannot change loss, or the run would be another than it is called; "
            "leave loss out of it.",
        ),
        ("by_loss: {brier: {name: digits/mlp}}", "by_loss.brier cannot change name, "),
        ("by_loss: {brier: {protocol: authors}}", "by_loss.brier cannot change protocol, "),
        ("protocols: {p: {protocol: authors}}", "protocols.p cannot change protocol, "),
        ("protocols: {p: {by_loss: {brier: {loss: fl-3}}}}", "by_loss.brier cannot change loss, "),
        ("by_loss: {briar: {seed: 1}}", "by_loss: There is no loss 'briar'; did you mean 'brier'?"),
        ("by_loss: {5: {seed: 1}}", "by_loss: There is no loss '5'; known are "),
    ],
)
def test_a_run_is_what_it_is_called(written, variants, sentence):
    path = written(f"{SMALL}{variants}\n")
    refused = refusal(path, {"protocol": "p"} if "protocols" in variants else {})
    assert refused.startswith(f"Recipe {path}: {sentence}")
    assert "\n" not in refused


def test_a_protocol_may_choose_the_loss_and_has_what_is_different_for_it(written):
    path = written(f"{SMALL}protocols: {{p: {{loss: brier}}}}\nby_loss: {{brier: {{seed: 7}}}}\n")
    assert (load_recipe(path).loss, load_recipe(path).seed) == ("cross-entropy", 0)
    chosen = load_recipe(path, {"protocol": "p"})
    assert (chosen.loss, chosen.seed) == ("brier", 7)
    assert load_recipe(path, {"protocol": "p", "loss": "fl-3"}).loss == "fl-3"


def test_by_loss_also_counts_for_the_loss_of_the_file_and_the_usual_one(written):
    assert load_recipe(written(SMALL + "loss: fl-2\nby_loss: {fl-2: {seed: 9}}\n")).seed == 9
    assert load_recipe(written(SMALL + "by_loss: {cross-entropy: {seed: 9}}\n")).seed == 9


@pytest.mark.parametrize("key", ["protocols", "by_loss"])
@pytest.mark.parametrize("value", ["3", "[a]", "{a: 3}"])
def test_variants_that_are_none(written, key, value):
    assert f"{key} must hold names, and for each name keys and values." in refusal(written(f"{SMALL}{key}: {value}\n"))


@pytest.mark.parametrize("name", recipe_names())
def test_what_a_run_writes_is_read_back_as_it_was(written, name):
    variants = {
        "cifar10/resnet110": ["protocol=authors"],
        "tiny_imagenet/resnet50": ["protocol=authors", "loss=flsc-531"],
    }
    recipe = load_recipe(name, variants.get(name, ["loss=flsd-53"]))
    assert load_recipe(written(recipe.to_yaml(), "config.yaml")) == recipe
    # In JSON the epochs of a schedule become texts.
    assert load_recipe(written(json.dumps(recipe.model_dump(mode="json")), "config.yaml")) == recipe
    assert load_recipe(written(yaml.safe_dump(recipe.model_dump(mode="json")), "config.yaml")) == recipe


def test_a_written_protocol_may_be_named_again_but_no_other(written):
    path = written(load_recipe("cifar10/resnet50", ["protocol=authors"]).to_yaml(), "config.yaml")
    assert load_recipe(path, ["protocol=authors"]).clip_norm == 2.0
    assert "has no protocol 'other'" in refusal(path, ["protocol=other"])
