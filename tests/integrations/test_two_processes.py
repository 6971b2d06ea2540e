"""Metrics and callbacks over two processes: each has its part, and each gets the value of the whole."""

import logging
import math
from pathlib import Path

import lightning.pytorch
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import focalcal as fc
from focalcal.integrations.lightning import CalibrationCallback
from focalcal.integrations.torchmetrics import CalibrationMetrics
from tiny_runs import in_processes

CLASSES = 4


def data(n):
    generator = torch.Generator().manual_seed(n)
    inputs = torch.randn(n, CLASSES, generator=generator)
    return inputs, (inputs + torch.randn(n, CLASSES, generator=generator)).argmax(1)


class Module(lightning.pytorch.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.loss = nn.Linear(CLASSES, CLASSES), fc.FocalLoss("flsd-53")

    def training_step(self, batch, batch_idx):
        return self.loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        return {"logits": self.net(batch[0]), "labels": batch[1]}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.5)


def check_torchmetrics(rank):
    logits, labels = data(301)
    own = slice(rank, None, 2)
    metric = CalibrationMetrics(CLASSES, logits=True)
    metric.update(logits[own], labels[own])
    found, whole = metric.compute(), CalibrationMetrics(CLASSES, logits=True, sync_on_compute=False)
    whole.update(logits, labels)
    for name, value in whole.compute().items():
        torch.testing.assert_close(found[name], value, equal_nan=True)
    assert int(metric.counts[0]) == len(labels[own])  # its own part again, to go on with


def check_lightning(folder):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.manual_seed(0)
    callback, module = CalibrationCallback(["nll", "ece", "scaled_nll"]), Module()
    trainer = lightning.pytorch.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=2,
        max_epochs=1,
        default_root_dir=folder,
        callbacks=[callback],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    )
    inputs, labels = data(60)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=16)
    trainer.fit(module, loader, loader)
    with torch.no_grad():
        preds = fc.Predictions.from_logits(module.net(inputs), labels)
    expected = fc.evaluate(preds, intervals=False)
    for name in ("nll", "ece"):
        assert math.isclose(float(trainer.callback_metrics[f"val/{name}"]), expected[name], abs_tol=1e-5), name
    fitted = fc.TemperatureScaling().fit(preds).temperature_
    assert math.isclose(callback.calibrator_.temperature_, fitted, rel_tol=1e-5)


def one_of_two(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    check_torchmetrics(rank)
    check_lightning(folder)
    (Path(folder) / f"rank-{rank}").touch()


@pytest.mark.slow
def test_two_processes(tmp_path):
    in_processes(2, one_of_two, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calibrator.json", "rank-0", "rank-1"]
