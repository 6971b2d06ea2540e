"""Every packaged recipe: it is complete, and what it names can be built and takes a step."""

import re
from importlib import resources

import pytest
import torch
import yaml
from torch.nn import functional

from focalcal.gamma import EpochGamma, SampleGamma
from focalcal.losses import LOSS_NAMES, MMCELoss
from focalcal.recipes import load_recipe, recipe_names
from focalcal.training.building import build_criterion, build_data, build_network, build_optimizers

LIBRARY = resources.files("focalcal.recipes") / "library"
PAPER = [
    *(
        f"{data}/{model}"
        for data in ("cifar10", "cifar100")
        for model in ("resnet50", "resnet110", "wide_resnet_26_10", "densenet121")
    ),
    "tiny_imagenet/resnet50",
]
EXPECTED = {
    *PAPER,
    "digits/mlp",
    "fashion_mnist/cnn",
    "cifar10/resnet8",
    "cifar10/resnet20",
    "cifar10/resnet20_crop",
    "newsgroups/gp_cnn",
    "newsgroups/gp_cnn_authors",
    "sst/tree_lstm",
    "sst/tree_lstm_authors",
    "text/gp_cnn",
    "multi30k/transformer_tiny",
    "multi30k/transformer_tiny_long",
    "wmt14/transformer_base",
}


def text_of(name):
    return LIBRARY.joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def test_the_library_is_complete():
    assert set(recipe_names()) == EXPECTED
    assert list(recipe_names()) == sorted(recipe_names())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_opens_with_its_own_command(name):
    command = re.match(r"# focalcal train (\S+) (.*)\n", text_of(name))
    assert command is not None
    assert command[1] == name
    changes = command[2].partition(" --out ")[0].split()
    assert load_recipe(name, changes).loss == "flsd-53"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_says_what_it_is(name):
    about = yaml.safe_load(text_of(name))["about"]
    assert set(about) == {"summary", "hardware", "time", "result"}
    assert all(about.values())
    assert load_recipe(name).name == name


@pytest.mark.parametrize("name", [name for name in sorted(EXPECTED) if name in PAPER or name.startswith(("n", "s"))])
def test_published_figures_are_called_the_papers(name):
    result, _, _ = load_recipe(name).about.result.partition("Ours")
    assert result.startswith("The paper's figures")
    assert len(re.findall(r"\d+\.\d\d / \d+\.\d\d → \d+\.\d\d \(\d\.\d\)", result)) == 2


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_loss_and_protocol_fits(name):
    for protocol in (None, *(["authors"] if name in PAPER else [])):
        for loss in LOSS_NAMES:
            recipe = load_recipe(name, {"loss": loss, "protocol": protocol})
            build_criterion(recipe)
            assert (recipe.loss, recipe.protocol) == (loss, protocol)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_builds_and_takes_a_step_on_synthetic_data(name):
    recipe = load_recipe(name, {"data.synthetic": 4, "loss": "flsd-53"})
    data = build_data(recipe)
    torch.manual_seed(0)
    model = build_network(recipe, data)
    optimizers = build_optimizers(recipe, model)
    before = model.classifier.weight.detach().clone()
    batch = data.train.batch(torch.arange(2), device=torch.device("cpu"), generator=torch.Generator().manual_seed(0))
    loss = build_criterion(recipe)(model(batch.inputs), batch.targets)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    assert torch.isfinite(loss)
    assert model.classifier.weight.isfinite().all()
    assert not torch.equal(model.classifier.weight, before)
    assert set(data.evaluation) >= {"val", "test", *getattr(recipe.data, "ood", ())}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_settings(name):
    recipe = load_recipe(name)
    tiny = name.startswith("tiny")
    assert recipe.optimizer.model_dump() == {
        "name": "sgd",
        "lr": 0.1,
        "weight_decay": 5e-4,
        "momentum": 0.9,
        "nesterov": False,
        "betas": (0.9, 0.999),
    }
    assert (recipe.epochs, recipe.batch_size) == ((100, 64) if tiny else (350, 128))
    assert recipe.schedule.factors == ({40: 0.1, 60: 0.01} if tiny else {150: 0.1, 250: 0.01})
    assert (recipe.reduction, recipe.clip_norm, recipe.select) == ("mean", None, "last")
    assert recipe.data.augment
    assert recipe.data.ood == (("svhn", "cifar10_c") if name.startswith("cifar10/") else ())


@pytest.mark.parametrize("name", PAPER)
def test_the_authors_protocol(name):
    recipe = load_recipe(name, ["protocol=authors", "loss=fl-3"])
    assert (recipe.protocol, recipe.reduction, recipe.clip_norm) == ("authors", "sum", 2.0)
    brier = load_recipe(name, ["protocol=authors", "loss=brier"])
    assert (brier.reduction, brier.clip_norm) == ("mean", 2.0)
    assert brier.optimizer.lr == (0.035 if name.startswith("tiny") else 0.1)
    assert brier.optimizer.weight_decay == 5e-4


@pytest.mark.parametrize("name", [name for name in PAPER if name.startswith("cifar")])
def test_briers_epochs_in_the_authors_scripts(name):
    longer = {"cifar10/wide_resnet_26_10": 550, "cifar100/resnet110": 430}
    brier = load_recipe(name, ["protocol=authors", "loss=brier"])
    assert (brier.epochs, brier.schedule.factors) == (longer.get(name, 350), {150: 0.1, 250: 0.01})
    assert load_recipe(name, ["protocol=authors", "loss=fl-3"]).epochs == 350
    assert load_recipe(name, ["loss=brier"]).epochs == 350


@pytest.mark.parametrize(("loss", "last"), [("flsc-531", 1.0), ("flsc-532", 2.0)])
def test_the_authors_gamma_schedule_on_tiny_imagenet(loss, last):
    authors = load_recipe("tiny_imagenet/resnet50", ["protocol=authors", f"loss={loss}"])
    assert authors.gamma_schedule == {0: 5.0, 30: 3.0, 70: last}
    assert load_recipe("tiny_imagenet/resnet50", [f"loss={loss}"]).gamma_schedule is None
    assert load_recipe("cifar10/resnet50", ["protocol=authors", f"loss={loss}"]).gamma_schedule is None


def test_the_two_tree_lstms():
    ours, authors = load_recipe("sst/tree_lstm"), load_recipe("sst/tree_lstm_authors")
    assert (ours.data.classes, ours.reduction, ours.model.leaf_output_gate) == (2, "mean", False)
    assert (authors.data.classes, authors.reduction, authors.model.leaf_output_gate) == (3, "per_sample", True)
    for recipe in (ours, authors):
        assert (recipe.epochs, recipe.batch_size, recipe.select) == (25, 25, "error")
        assert (recipe.optimizer.name, recipe.optimizer.lr, recipe.optimizer.weight_decay) == ("adagrad", 0.05, 1e-4)
        assert recipe.embedding_optimizer.weight_decay == 0
    assert (ours.embedding_optimizer.name, ours.embedding_optimizer.lr) == ("adagrad", 0.05)
    own = authors.embedding_optimizer
    assert (own.name, own.lr, own.momentum) == ("sgd", 0.1, 0.0)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("sst/tree_lstm", (3, 7)), ("sst/tree_lstm_authors", (3, 7)), ("newsgroups/gp_cnn_authors", (14, 35))],
)
def test_the_authors_gamma_schedules_on_texts(name, changes):
    for loss, last in (("flsc-531", 1.0), ("flsc-532", 2.0)):
        gamma = build_criterion(load_recipe(name, {"loss": loss})).gamma
        assert gamma == EpochGamma({0: 5.0, changes[0]: 3.0, changes[1]: last})


def test_the_authors_tree_lstm():
    name = "sst/tree_lstm_authors"
    assert (load_recipe(name).model.output_gate, load_recipe("sst/tree_lstm").model.output_gate) == (False, True)
    assert build_criterion(load_recipe(name, {"loss": "flsd-53"})).gamma == SampleGamma((0.19,), (5.0, 3.0))
    assert build_criterion(load_recipe(name, {"loss": "flsd-532"})).gamma == SampleGamma((0.19, 0.5), (5.0, 3.0, 2.0))
    assert build_criterion(load_recipe("sst/tree_lstm", {"loss": "flsd-53"})).gamma == SampleGamma.flsd53()
    assert (load_recipe(name).drop_last, load_recipe("sst/tree_lstm").drop_last) == (True, False)
    assert build_criterion(load_recipe(name, {"loss": "mmce"})).penalty == 1.0
    assert build_criterion(load_recipe("sst/tree_lstm", {"loss": "mmce"})).penalty == 2.0


def test_mmce_per_batch_of_trees():
    """Σ cross-entropy of the nodes + (number of nodes) · MMCE, both divided by 25 in the loop; on images by nothing."""
    torch.manual_seed(0)
    logits, target = torch.randn(475, 3), torch.randint(3, (475,))
    cross_entropy = functional.cross_entropy(logits, target)
    penalty = MMCELoss(1.0)(logits, target) - cross_entropy
    loss = build_criterion(load_recipe("sst/tree_lstm_authors", {"loss": "mmce"}))(logits, target)
    torch.testing.assert_close(loss, 475 * cross_entropy + 475 * penalty)
    recipe = load_recipe("cifar10/resnet50", {"loss": "mmce", "protocol": "authors"})
    loss = build_criterion(recipe)(logits[:128], target[:128])
    torch.testing.assert_close(loss, 128 * MMCELoss(2.0)(logits[:128], target[:128]))


def test_the_two_text_networks():
    ours, authors = load_recipe("newsgroups/gp_cnn"), load_recipe("newsgroups/gp_cnn_authors")
    assert (ours.model.pool_stride, ours.model.dropout) == (5, 0.0)
    assert (authors.model.pool_stride, authors.model.dropout) == (1, 0.3)
    assert (ours.model.initialization, authors.model.initialization) == ("glorot", "pytorch")
    assert (ours.drop_last, authors.drop_last) == (False, True)
    assert (ours.data.split, ours.data.vocabulary, ours.data.words) == ("random", "training", 20_000)
    assert (authors.data.split, authors.data.vocabulary, authors.data.words) == ("authors", "all", 19_999)
    assert (ours.data.missing_vectors, authors.data.missing_vectors) == ("random", "zeros")
    assert build_criterion(load_recipe("newsgroups/gp_cnn_authors", {"loss": "mmce"})).penalty == 2.0
    for recipe in (ours, authors):
        assert (recipe.reduction, recipe.clip_norm, recipe.model.freeze) == ("mean", None, True)
        assert (recipe.epochs, recipe.batch_size, recipe.select, recipe.group_by_length) == (50, 128, "error", True)
        assert (recipe.optimizer.name, recipe.optimizer.lr, recipe.optimizer.betas) == ("adam", 1e-3, (0.9, 0.999))
