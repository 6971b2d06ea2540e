"""The callback in the real Trainer, of both packages that Lightning comes as."""

import logging

import lightning.pytorch
import pytest
import pytorch_lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import focalcal as fc
from focalcal.integrations.lightning import CalibrationCallback

PACKAGES = [lightning.pytorch, pytorch_lightning]
CLASSES = 4
# What the Trainer says about small data and few workers, and what its own code still calls.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*is smaller than the logging interval:UserWarning"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    for package in PACKAGES:
        monkeypatch.setattr(logging.getLogger(package.__name__), "level", logging.ERROR)


def data(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 5, generator=generator)
    labels = (inputs[:, :CLASSES] + torch.randn(n, CLASSES, generator=generator)).argmax(1)
    return TensorDataset(inputs, labels)


def loader(seed=0, **options):
    return DataLoader(data(seed=seed, **options), batch_size=16)


class Steps:
    """A module as anybody would write it."""

    def __init__(self, loss=None, answer=None):
        super().__init__()
        self.net = nn.Linear(5, CLASSES)
        nn.init.constant_(self.net.weight, 0.1)
        nn.init.zeros_(self.net.bias)
        self.loss = fc.FocalLoss("flsd-53") if loss is None else loss
        self.answer = answer or (lambda logits, labels: {"logits": logits, "labels": labels})
        self.gammas = []

    def training_step(self, batch, batch_idx):
        if isinstance(self.loss, fc.FocalLoss):
            self.gammas.append(self.loss.gamma.at_epoch(self.loss.epoch))
        return self.loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        return self.answer(self.net(batch[0]), batch[1])

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=2.0)


def module_of(package, *arguments):
    return type("Module", (Steps, package.LightningModule), {})(*arguments)


def trainer_of(package, folder, callbacks, **options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    quiet |= {"default_root_dir": folder, "enable_checkpointing": False, "max_epochs": 3}
    return package.Trainer(callbacks=callbacks, **quiet | options)


def predictions(module, seed):
    inputs, labels = data(seed=seed).tensors
    with torch.no_grad():
        return fc.Predictions.from_logits(module.net(inputs), labels)


def test_is_a_callback_of_both():
    callback = CalibrationCallback()
    assert all(isinstance(callback, package.Callback) for package in PACKAGES)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_metrics_checkpoint_and_calibrator(package, tmp_path):
    callback, module = CalibrationCallback(keep="best"), module_of(package)
    checkpoint = package.callbacks.ModelCheckpoint(
        tmp_path, monitor="val/scaled_nll", filename="best", enable_version_counter=False
    )
    trainer = trainer_of(package, tmp_path, [callback, checkpoint], enable_checkpointing=True)
    trainer.fit(module, loader(), loader(1))
    expected = fc.evaluate(predictions(module, 1), intervals=False)
    for name in ("error", "nll", "ece", "classwise_ece", "smooth_ece"):
        assert float(trainer.callback_metrics[f"val/{name}"]) == pytest.approx(expected[name], abs=1e-4), name
    # The weights that the checkpoint kept are those whose outputs the calibrator was fitted on.
    trainer.validate(module, loader(1), ckpt_path="best", verbose=False)
    kept = predictions(module, 1)
    assert float(checkpoint.best_model_score) == pytest.approx(fc.metrics.nll_split(kept).refinement, abs=1e-5)
    saved = fc.load_calibrator(tmp_path / "calibrator.json")
    assert saved.temperature_ == callback.calibrator_.temperature_
    assert saved.temperature_ == pytest.approx(fc.TemperatureScaling().fit(kept).temperature_, rel=1e-6)


def test_the_last_outputs_are_kept_by_default(tmp_path):
    module, path = module_of(PACKAGES[0]), tmp_path / "t.json"
    callback = CalibrationCallback(calibrator=fc.TemperatureScaling(objective="ece"), path=path)
    trainer_of(PACKAGES[0], tmp_path, [callback]).fit(module, loader(), loader(1))
    expected = fc.TemperatureScaling(objective="ece").fit(predictions(module, 1)).temperature_
    assert fc.load_calibrator(path).temperature_ == expected
    assert callback.calibrator_.record_.split == "val"


def test_a_calibrator_stands_beside_the_log(tmp_path):
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path, name="run", version=0)
    trainer = trainer_of(PACKAGES[0], tmp_path, [CalibrationCallback(["nll", "ece"])], logger=logger, max_epochs=1)
    trainer.fit(module_of(PACKAGES[0]), loader(), loader(1))
    assert (tmp_path / "run" / "version_0" / "calibrator.json").is_file()
    head, *lines = (tmp_path / "run" / "version_0" / "metrics.csv").read_text().splitlines()
    assert {"val/nll", "val/ece"} <= set(head.split(","))
    assert len(lines) == 1


def test_gamma_follows_the_epoch(tmp_path):
    module = module_of(PACKAGES[0], fc.FocalLoss(fc.EpochGamma({0: 5.0, 1: 3.0, 2: 1.0})))
    trainer_of(PACKAGES[0], tmp_path, [CalibrationCallback(calibrator=None)]).fit(module, loader(), loader(1))
    assert [gamma.gamma for gamma in module.gammas] == [5.0] * 4 + [3.0] * 4 + [1.0] * 4
    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_is_not_a_part_of_the_module(tmp_path):
    loss, seen = fc.FocalLoss(fc.EpochGamma({0: 5.0, 1: 1.0})), []

    def function(logits, labels):
        seen.append(loss.epoch)
        return loss(logits, labels)

    callback = CalibrationCallback(calibrator=None, loss=loss)
    trainer_of(PACKAGES[0], tmp_path, [callback], max_epochs=2).fit(
        module_of(PACKAGES[0], function), loader(), loader(1)
    )
    assert seen == [0] * 4 + [1] * 4


def test_a_schedule_that_is_longer_than_the_run_is_told(tmp_path):
    module = module_of(PACKAGES[0], fc.FocalLoss("flsc-531"))
    with pytest.warns(UserWarning, match="begins in epoch 250, and the run ends after 3"):
        trainer_of(PACKAGES[0], tmp_path, [CalibrationCallback(calibrator=None)]).fit(module, loader(), loader(1))


def test_sanity_checking_is_left_out(tmp_path):
    seen = []

    class Watched(CalibrationCallback):
        def on_sanity_check_end(self, trainer, pl_module):
            seen.append((dict(trainer.callback_metrics), self._sums, self._outputs))

    trainer = trainer_of(PACKAGES[0], tmp_path, [Watched()], num_sanity_val_steps=2, max_epochs=1)
    trainer.fit(module_of(PACKAGES[0]), loader(), loader(1))
    assert seen == [({}, {}, [])]


def test_several_sets_of_validation_data_and_a_test(tmp_path):
    module = module_of(PACKAGES[0])
    trainer = trainer_of(PACKAGES[0], tmp_path, [CalibrationCallback(["nll"])], max_epochs=1)
    trainer.fit(module, loader(), [loader(1), loader(2)])
    for number, seed in enumerate((1, 2)):
        expected = fc.metrics.nll(predictions(module, seed))
        found = float(trainer.callback_metrics[f"val/nll/dataloader_idx_{number}"])
        assert found == pytest.approx(expected, abs=1e-5)
    trainer.test(module, loader(3), verbose=False)
    assert float(trainer.callback_metrics["test/nll"]) == pytest.approx(
        fc.metrics.nll(predictions(module, 3)), abs=1e-5
    )


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (lambda z, y: {"probs": z.softmax(1), "labels": y}, None),
        (lambda z, y: (z, y), lambda result, batch: {"logits": result[0], "labels": batch[1]}),
        (lambda z, y: {"logits": z, "labels": nn.functional.one_hot(y, CLASSES).double()}, None),
    ],
    ids=["probabilities", "read", "class probabilities"],
)
def test_what_a_step_returns(tmp_path, answer, read):
    module, callback = module_of(PACKAGES[0], None, answer), CalibrationCallback(["nll"], read=read)
    trainer = trainer_of(PACKAGES[0], tmp_path, [callback], max_epochs=1)
    trainer.fit(module, loader(), loader(1))
    found, expected = trainer.callback_metrics["val/nll"], fc.metrics.nll(predictions(module, 1))
    assert float(found) == pytest.approx(expected, abs=1e-5)
    assert callback.calibrator_ is not None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda z, y: None, "got NoneType"),
        (lambda z, y: {"logits": z}, "got the keys logits"),
        (lambda z, y: {"logits": z, "probs": z, "labels": y}, "got the keys logits, probs, labels"),
    ],
)
def test_a_step_that_returns_something_else(tmp_path, answer, said):
    with pytest.raises(
        ValueError, match=f'^validation_step must return a dictionary with "labels".*{said}; or pass read='
    ):
        trainer_of(PACKAGES[0], tmp_path, [CalibrationCallback()]).validate(
            module_of(PACKAGES[0], None, answer), loader(1), verbose=False
        )


def test_validating_alone_fits_nothing(tmp_path):
    callback = CalibrationCallback()
    trainer_of(PACKAGES[0], tmp_path, [callback]).validate(module_of(PACKAGES[0]), loader(1), verbose=False)
    assert callback.calibrator_ is None
    assert list(tmp_path.iterdir()) == []


def test_no_validation_is_told(tmp_path):
    with pytest.warns(UserWarning, match="no validation, so no calibrator was fitted"):
        trainer_of(PACKAGES[0], tmp_path, [CalibrationCallback()], max_epochs=1, limit_val_batches=0).fit(
            module_of(PACKAGES[0]), loader(), loader(1)
        )


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="keep must be 'last' or 'best', got 'first'"):
        CalibrationCallback(keep="first")
    with pytest.raises(ValueError, match="There is no metric 'ecs'; did you mean 'ece'"):
        CalibrationCallback(["ecs"])
    with pytest.raises(ValueError, match="its folder does not exist"):
        CalibrationCallback(path=tmp_path / "nowhere" / "t.json")
    with pytest.raises(ValueError, match="temprature"):
        CalibrationCallback(calibrator="temprature")
