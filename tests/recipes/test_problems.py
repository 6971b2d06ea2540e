import re

import pytest

from focalcal.recipes import Recipe, load_recipe


def refusal(*changes, name="digits/mlp"):
    with pytest.raises(ValueError) as refused:
        load_recipe(name, changes)
    return str(refused.value).removeprefix(f"Recipe {name}: ")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("optimizer.lrr=1", "there is no key optimizer.lrr; did you mean optimizer.lr?"),
        ("optimizer.learning_rate=1", "there is no key optimizer.learning_rate; did you mean optimizer.lr?"),
        ("lr=1", "there is no key lr; did you mean optimizer.lr?"),
        ("learning_rate=1", "there is no key learning_rate; did you mean optimizer.lr?"),
        ("epoch=3", "there is no key epoch; did you mean epochs?"),
        ("precision=32", "there is no key precision; did you mean hardware.precision?"),
        ("data.trainsize=3", "there is no key data.trainsize; did you mean data.train_size?"),
        ("model.hiden=[3]", "there is no key model.hiden; did you mean model.hidden?"),
        ("model.width=3", "there is no key model.width; the keys there are name, hidden, dropout."),
        ("embedding_optimizer={name: sgd, lrr: 1}", "there is no key embedding_optimizer.lrr; "),
        ("data=cifar11", "data.name: 'cifar11' is not known; did you mean cifar10?"),
        ("model=resnet51", "model.name: 'resnet51' is not known; did you mean resnet50?"),
        ("optimizer=adm", "optimizer.name: 'adm' is not known; did you mean adam?"),
        ("reduction=average", "reduction: 'average' is not known; known are mean, sum, per_sample."),
        ("data={name: cifar10, augment: flips}", "data.augment: 'flips' is not known; did you mean flip?"),
        ("data={name: cifar10, augment: some}", "data.augment: 'some' is not known; known are true, false, flip."),
        ("select=eror", "select: 'eror' is not known; did you mean error?"),
        ("epochs=many", "epochs should be a whole number, got 'many'."),
        ("epochs=0", "epochs should be greater than 0, got 0."),
        ("epochs=yes", "epochs should be a whole number, got True."),
        ("epochs=2.5", "epochs should be a whole number, got 2.5."),
        ("epochs=1000001", "epochs should be less than or equal to 1000000, got 1000001."),
        (f"epochs={10**30}", f"epochs should be less than or equal to 1000000, got {10**30}."),
        ("epochs=1.0e+30", "epochs should be a whole number, got 1e+30."),
        (f"batch_size={10**30}", "batch_size should be less than 2147483648, got 1000"),
        ("optimizer.lr=.inf", "optimizer.lr should be a finite number, got inf."),
        ("optimizer.lr=.nan", "optimizer.lr should be "),
        ("optimizer.momentum=1", "optimizer.momentum should be less than 1, got 1."),
        ("embedding_optimizer={lr: -1}", "embedding_optimizer.lr should be greater than 0, got -1."),
        ("loss=", "loss: give it a value."),
        ("epochs=", "epochs: give it a value."),
        ("data=", "data: give it a value."),
        ("optimizer.lr=null", "optimizer.lr: give it a value."),
        ("loss=5", "loss should be a text, got 5."),
        ("loss=flsd53", "loss: there is no loss 'flsd53'; did you mean 'flsd-53'?"),
        ("loss=qqq", "loss: there is no loss 'qqq'; known are cross-entropy, brier, "),
        ("loss=''", "loss: there is no loss ''; known are "),
        ("loss=ls-1", "loss: the α of ls-<α> must lie in [0, 1), got 1."),
        ("hardware.threads=1000000", "hardware.threads should be less than or equal to 1024, got 1000000."),
        ("hardware.threads=0", "hardware.threads should be greater than 0, got 0."),
        ("logging.to=[csv, csv]", "logging.to: csv is named twice; name it once."),
        ("optimizer={5: 1}", "optimizer.5: a key must be a text, got 5."),
        ("hardware=cpu", "hardware should hold keys and values, got 'cpu'."),
        ("data=[1]", "data should hold keys and values, got [1]."),
        ("model.hidden=3", "model.hidden should be a list, got 3."),
        ("schedule.factors={x: 0.1}", "schedule.factors.x should be a whole number, got 'x'."),
        ("schedule.factors={3: -1}", "schedule.factors.3 should be greater than 0, got -1."),
        ("gamma_schedule={5: 1}", "gamma_schedule must begin at epoch 0."),
        ("mmce_penalty=-1", "mmce_penalty should be greater than or equal to 0, got -1."),
        ("gamma_by_sample={thresholds: [0.2]}", "the key gamma_by_sample.gammas is missing; give it a value."),
        (
            "gamma_by_sample={thresholds: [0.2], gammas: [5]}",
            "gamma_by_sample.gammas must be one more than the thresholds, 2, and are 1.",
        ),
        (
            "gamma_by_sample={thresholds: [0.5, 0.2], gammas: [5, 3, 2]}",
            "gamma_by_sample.thresholds must lie between 0 and 1 and increase.",
        ),
        (
            "gamma_by_sample={thresholds: [0.2], gammas: [5, -3]}",
            "gamma_by_sample.gammas.1 should be greater than or equal to 0, got -3.",
        ),
        ("data.ood=svhn", "data.ood is for cifar10 and cifar100 only, not for digits; leave it out."),
        (
            "schedule={name: cosine, factors: {1: 0.1}}",
            "schedule.factors belongs to schedule.name=steps, not to cosine.",
        ),
        ("schedule={name: cosine, warmup_epochs: 9999}", "schedule.warmup_epochs must be at most the run's "),
        ("accumulate=99999", "batch_size must be at least accumulate × devices × nodes, one sample for each part."),
        ("optimizer={name: sgd, momentum: 0, nesterov: true}", "optimizer.nesterov needs a momentum above 0."),
        ("model=tree_lstm", "model.name: tree_lstm does not take digits; networks for it are resnet50, "),
    ],
)
def test_one_problem_is_one_sentence(change, sentence):
    refused = refusal(change)
    assert refused.startswith(sentence)
    assert "\n" not in refused
    assert not re.search(r"[.?!…]{2}|\?[.;]", refused)


def test_a_missing_name_and_a_missing_key():
    with pytest.raises(
        ValueError, match=r"Recipe mine has 2 problems:\n  data: the name is missing; write data.name=…\n"
    ):
        Recipe.check({"data": {"train_size": 3}, "model": "mlp"}, "mine")
    with pytest.raises(ValueError, match=r"^Recipe mine: the key epochs is missing; give it a value\.$"):
        Recipe.check({"data": "digits", "model": "mlp"}, "mine")


def test_steps_need_their_factors():
    with pytest.raises(ValueError, match=r"schedule\.factors must say from which epoch on the learning rate is multip"):
        Recipe.check({"data": "digits", "model": "mlp", "epochs": 3, "schedule": "steps"}, "mine")


def test_steps_keep_the_factors_of_a_recipe_with_steps_and_need_them_elsewhere():
    assert load_recipe("digits/mlp", ["schedule=steps"]) == load_recipe("digits/mlp")
    constant = load_recipe("digits/mlp", ["schedule=constant"])
    assert constant.schedule.factors == {}
    with pytest.raises(ValueError, match=r"schedule\.factors must say"):
        constant.with_changes(schedule="steps")
    assert refusal("schedule.factors={}").startswith("schedule.factors must say from which epoch on")


def test_an_out_of_distribution_set_is_named_once():
    assert refusal("data.ood=[svhn, svhn]", name="cifar10/resnet50") == "data.ood: svhn is named twice; name it once."
    assert load_recipe("cifar10/resnet50", ["data.ood=[svhn, cifar10_c]"]).data.ood == ("svhn", "cifar10_c")


@pytest.mark.parametrize("loss", ["cross-entropy", "mmce-formula", "ls-0", "ls-0.99", "fl-0.5", "fl-7", "flsc-532"])
def test_losses_that_can_be_built_are_taken(loss):
    assert load_recipe("digits/mlp", {"loss": loss}).loss == loss


def test_all_problems_at_once():
    refused = refusal("epochs=many", "optimizer.foo=1", "data.name=cifar11", "hardware=cpu", "loss=", "bogus=1")
    first, *lines = refused.split("\n")
    assert first == "Recipe digits/mlp has 6 problems:"
    assert sorted(line.split()[0] for line in lines) == ["data.name:", "epochs", "hardware", "loss:", "there", "there"]
    assert all(line.startswith("  ") and line.endswith((".", "?")) for line in lines)


def test_fields_that_do_not_fit_together_are_all_named():
    refused = refusal("model=tree_lstm", "batch_size=1", "accumulate=2", "gamma_schedule={1: 3}")
    assert refused.startswith("Recipe digits/mlp has 3 problems:\n  model.name: tree_lstm does not take digits")


def test_gamma_is_chosen_once():
    changes = {"gamma_schedule": {0: 5}, "gamma_by_sample": {"thresholds": [0.2], "gammas": [5, 3]}}
    with pytest.raises(ValueError, match="gamma_schedule and gamma_by_sample cannot both choose γ; leave one of them"):
        load_recipe("digits/mlp", changes)


def test_two_splits_of_newsgroups_are_refused():
    refused = refusal("data.by_date=true", name="newsgroups/gp_cnn_authors")
    assert refused == "data.by_date and data.split=authors are two different splits; leave one of them out."


def test_sparse_gradients_are_kept_from_what_cannot_take_them():
    sparse = "the word vectors' gradient is sparse, which only adagrad, and sgd with momentum 0, take, "
    for change in ("embedding_optimizer=adam", "embedding_optimizer.weight_decay=0.1", "embedding_optimizer=null"):
        assert refusal(change, name="sst/tree_lstm").startswith(sparse)
        assert load_recipe("sst/tree_lstm", [change, "model.sparse=false"]).model.sparse is False
    assert refusal("clip_norm=2", name="sst/tree_lstm").startswith("clip_norm cannot be used with sparse gradients")
    assert load_recipe("sst/tree_lstm", ["clip_norm=2", "model.sparse=false"]).clip_norm == 2.0


def test_changes_of_a_recipe_are_checked_in_the_same_words():
    with pytest.raises(ValueError, match=r"^Recipe digits/mlp: epochs should be greater than 0, got 0\.$"):
        load_recipe("digits/mlp").with_changes(epochs=0)
