"""Our losses and metrics inside the real Trainer, with tiny models that are made from a configuration."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    EvalPrediction,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

import focalcal as fc
from focalcal.integrations.transformers import GammaCallback, calibration_metrics, loss_function

WORDS, LABELS, LENGTH = 20, 3, 6


def network(kind=BertForSequenceClassification, labels=LABELS):
    torch.manual_seed(1)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": LENGTH}
    return kind(BertConfig(vocab_size=WORDS, num_labels=labels, **size, **still))


def texts(n, token_labels=False, seed=0):
    """Rows of the Trainer: words, and the class or one label per word, of which some are not labelled."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(WORDS, (n, LENGTH), generator=generator)
    classes = (words % LABELS) if token_labels else words.sum(1) % LABELS
    if token_labels:
        classes[torch.arange(LENGTH) > torch.arange(n)[:, None] % LENGTH] = -100
    return [{"input_ids": row, "labels": label} for row, label in zip(words, classes, strict=True)]


def arguments(folder, **options):
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no", "seed": 0}
    return TrainingArguments(str(folder), **quiet | options)


def after_one_step(folder, model, rows, batch, steps, loss):
    """The weights after one step of plain gradient descent."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer = Trainer(
        model,
        arguments(
            folder,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=steps,
            max_steps=1,
            max_grad_norm=0.0,
            logging_strategy="no",
        ),
        train_dataset=rows,
        compute_loss_func=loss,
        optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)),
    )
    trainer.train()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", ["flsd-53", "brier", "ls-0.05", "cross-entropy"])
def test_accumulated_gradients_are_those_of_one_large_batch(tmp_path, name):
    rows = texts(8, token_labels=True)
    start = torch.cat([parameter.detach().flatten() for parameter in network(BertForTokenClassification).parameters()])
    large, parts = (
        after_one_step(tmp_path, network(BertForTokenClassification), rows, batch, steps, loss_function(name))
        for batch, steps in ((8, 1), (2, 4))
    )
    assert (large - start).norm() > 1e-3
    torch.testing.assert_close(parts, large, rtol=1e-4, atol=1e-6)


def test_a_plain_mean_would_be_four_times_too_large(tmp_path):
    rows = texts(8)

    def mean(outputs, labels, num_items_in_batch=None):
        return fc.focal_loss(outputs.logits, labels)

    weights = [
        after_one_step(tmp_path, network(), rows, batch, steps, loss)
        for batch, steps, loss in ((8, 1, loss_function("fl-3")), (2, 4, mean), (2, 4, loss_function("fl-3")))
    ]
    start = torch.cat([parameter.detach().flatten() for parameter in network().parameters()])
    large, wrong, parts = ((after - start).norm().item() for after in weights)
    assert parts == pytest.approx(large, rel=1e-4)
    assert wrong == pytest.approx(4 * large, rel=1e-3)


def test_class_probabilities_are_divided_by_rows():
    logits, soft = torch.randn(5, LABELS), torch.rand(5, LABELS).softmax(1)
    loss = loss_function("fl-2")
    counted = soft.ne(-100).sum()  # as the Trainer counts them: N · K
    torch.testing.assert_close(loss((logits,), soft, counted), fc.focal_loss(logits, soft, 2.0))
    positions, targets = torch.randn(4, 6, LABELS), torch.rand(4, 6, LABELS).softmax(-1)
    expected = fc.focal_loss(positions.flatten(0, 1), targets.flatten(0, 1), 2.0)
    torch.testing.assert_close(loss((positions,), targets, num_items_in_batch=72), expected)


def test_a_causal_model_is_shifted_as_its_own_loss_is():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_embd=8, n_layer=1, n_head=2, n_positions=8))
    model.eval()
    words = torch.randint(WORDS, (3, 8))
    labels = words.masked_fill(torch.rand(3, 8) < 0.3, -100)
    with torch.no_grad():
        outputs = model(words)
        own = model(words, labels=labels).loss
    torch.testing.assert_close(loss_function("cross-entropy", causal=True)(outputs, labels), own)
    items = int((labels[:, 1:] != -100).sum())
    torch.testing.assert_close(loss_function("cross-entropy", causal=True)(outputs, labels, items), own)
    focal = fc.focal_loss(outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), 3.0, reduction="sum") / 100
    torch.testing.assert_close(loss_function("fl-3", causal=True)(outputs, labels, torch.tensor(100)), focal)
    measured = calibration_metrics(["nll"], causal=True)(EvalPrediction(outputs.logits.numpy(), labels.numpy()))
    assert measured["nll"] == pytest.approx(own.item(), abs=1e-6)


def test_images_have_their_classes_in_the_middle():
    logits, labels = torch.randn(2, LABELS, 4, 4), torch.randint(LABELS, (2, 4, 4))
    loss = loss_function("fl-3", class_dim=1)
    torch.testing.assert_close(loss({"logits": logits}, labels, 32), fc.focal_loss(logits, labels, 3.0))
    measured = calibration_metrics(["nll"], class_dim=1)(EvalPrediction(logits.numpy(), labels.numpy()))
    assert measured["nll"] == pytest.approx(functional.cross_entropy(logits, labels).item(), abs=1e-6)


def test_several_labels_per_sample():
    logits, labels = torch.randn(4, LABELS), torch.randint(2, (4, LABELS))
    loss = loss_function(fc.BinaryFocalLoss(2.0, alpha=0.25))
    torch.testing.assert_close(loss((logits,), labels, 12), fc.binary_focal_loss(logits, labels, 2.0, alpha=0.25))


def test_mmce_is_computed_per_step():
    logits, labels = torch.randn(6, LABELS), torch.randint(LABELS, (6,))
    loss = loss_function(fc.MMCELoss())
    torch.testing.assert_close(loss((logits,), labels, 24), fc.MMCELoss()(logits, labels) * 6 / 24)


def test_the_loss_itself_stays_as_it_is():
    given = fc.FocalLoss("flsc-531", weight=torch.tensor([1.0, 2.0, 3.0]))
    loss = loss_function(given)
    logits, labels = torch.randn(6, LABELS), torch.randint(LABELS, (6,))
    given.set_epoch(260)
    expected = fc.focal_loss(logits, labels, 1.0, weight=given.weight, reduction="sum") / 6
    torch.testing.assert_close(loss((logits,), labels, 6), expected)
    assert given.reduction == "mean"


def test_gamma_follows_the_epoch(tmp_path):
    loss = loss_function(fc.FocalLoss(fc.EpochGamma({0: 5.0, 1: 3.0, 2: 1.0})))
    seen = []

    def noted(outputs, labels, num_items_in_batch=None):
        seen.append(loss.loss.gamma.at_epoch(loss.loss.epoch).gamma)
        return loss(outputs, labels, num_items_in_batch)

    options = arguments(tmp_path, per_device_train_batch_size=4, num_train_epochs=3, logging_strategy="no")
    trainer = Trainer(
        network(), options, train_dataset=texts(8), compute_loss_func=noted, callbacks=[GammaCallback(loss)]
    )
    trainer.train()
    assert seen == [5.0, 5.0, 3.0, 3.0, 1.0, 1.0]


def test_a_schedule_that_is_longer_than_the_run_is_told(tmp_path):
    loss = loss_function("flsc-531")
    options = arguments(tmp_path, per_device_train_batch_size=8, num_train_epochs=1, logging_strategy="no")
    trainer = Trainer(
        network(), options, train_dataset=texts(8), compute_loss_func=loss, callbacks=[GammaCallback(loss)]
    )
    with pytest.warns(UserWarning, match="begins in epoch 250, and the run ends after 1"):
        trainer.train()


@pytest.mark.parametrize("batched", [False, True])
def test_the_best_model_is_chosen_by_nll_after_scaling(tmp_path, batched):
    options = arguments(
        tmp_path,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=16,
        num_train_epochs=3,
        learning_rate=0.1,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_scaled_nll",
        greater_is_better=False,
        batch_eval_metrics=batched,
    )
    held_out = texts(40, seed=2)
    trainer = Trainer(
        network(),
        options,
        train_dataset=texts(48, seed=1),
        eval_dataset=held_out,
        compute_loss_func=loss_function("flsd-53"),
        compute_metrics=calibration_metrics(),
    )
    trainer.train()
    logged = [entry["eval_scaled_nll"] for entry in trainer.state.log_history if "eval_scaled_nll" in entry]
    assert len(logged) == 3
    assert trainer.state.best_metric == min(logged)
    with torch.no_grad():
        logits = trainer.model(torch.stack([row["input_ids"] for row in held_out])).logits
    preds = fc.Predictions.from_logits(logits, torch.stack([row["labels"] for row in held_out]))
    again, expected = trainer.evaluate(), fc.evaluate(preds, intervals=False)
    assert again["eval_scaled_nll"] == pytest.approx(min(logged), abs=1e-6)
    assert again["eval_scaled_nll"] == pytest.approx(fc.metrics.nll_split(preds).refinement, abs=1e-5)
    for name in ("error", "nll", "ece", "classwise_ece"):
        assert again[f"eval_{name}"] == pytest.approx(expected[name], abs=1e-4), name


def test_batch_by_batch_gives_what_everything_at_once_gives():
    logits, labels = np.random.default_rng(0).normal(size=(50, 4, LABELS)), np.arange(200).reshape(50, 4) % LABELS
    labels[7:14] = -100  # a batch without any label
    measure = calibration_metrics()
    whole = measure(EvalPrediction(logits, labels))
    for _ in range(2):  # the second evaluation starts from nothing
        for start in range(0, 49, 7):
            part = EvalPrediction(torch.tensor(logits[start : start + 7]), torch.tensor(labels[start : start + 7]))
            assert measure(part, compute_result=False) == {}
        found = measure(EvalPrediction((logits[49:],), labels[49:]), compute_result=True)
        for name, value in whole.items():
            assert found[name] == pytest.approx(value, abs=1e-3, rel=1e-3, nan_ok=True), name
        assert found["nll"] == pytest.approx(whole["nll"], rel=1e-12)


def test_probabilities_and_chosen_metrics():
    probs, labels = np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0])
    measure = calibration_metrics(["error", "brier", "scaled_nll"], logits=False)
    found = measure(EvalPrediction(probs, labels))
    assert list(found) == ["error", "brier", "scaled_nll"]
    assert (found["error"], found["brier"]) == (0.0, pytest.approx((0.125 + 0.5) / 2))
    assert found["scaled_nll"] == pytest.approx(math.log(2) / 2, abs=1e-3)


def test_refusals():
    with pytest.raises(ValueError, match="There is no loss 'flsd53'; did you mean 'flsd-53'"):
        loss_function("flsd53")
    with pytest.raises(TypeError, match="a name or a loss such as FocalLoss, got MSELoss"):
        loss_function(nn.MSELoss())
    with pytest.raises(TypeError, match="got OptimizedModule; of a compiled loss pass the one before"):
        loss_function(torch.compile(fc.FocalLoss(), backend="eager"))
    with pytest.raises(ValueError, match="The loss ignores 0, but the Trainer counts all labels other than -100"):
        loss_function(fc.FocalLoss(ignore_index=0))
    with pytest.raises(ValueError, match="use FocalLoss, not a binary loss"):
        loss_function(fc.BinaryFocalLoss(), causal=True)
    with pytest.raises(ValueError, match="class_dim must be -1"):
        loss_function("fl-3", class_dim=2)
    with pytest.raises(ValueError, match="leave class_dim at -1"):
        calibration_metrics(causal=True, class_dim=1)
    with pytest.raises(ValueError, match=r"causal needs logits \(N, positions, K\), got \(2, 3\)"):
        loss_function("fl-3", causal=True)((torch.zeros(2, 3),), torch.zeros(2).long())
    with pytest.raises(ValueError, match="The batch has no labels"):
        loss_function("fl-3")((torch.zeros(2, 3),), None)
    with pytest.raises(TypeError, match="Only focal losses have a γ"):
        GammaCallback(fc.BrierLoss())
    with pytest.raises(TypeError, match="logits must be True"):
        calibration_metrics(logits=None)
    with pytest.raises(ValueError, match="several labels per sample"):
        calibration_metrics()(EvalPrediction(np.zeros((2, 3)), (np.zeros(2), np.zeros(2))))
