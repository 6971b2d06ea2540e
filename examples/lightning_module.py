"""Lightning: a γ schedule that follows the epochs, every calibration metric in the log, the checkpoint by scaled NLL.

    python examples/lightning_module.py [--quick]

Needs pip install 'focalcal[lightning]'. Writes a checkpoint and the calibrator of its outputs to the current folder.
"""

import logging
import sys
import warnings

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import focalcal as fc
from focalcal.integrations.lightning import CalibrationCallback

QUICK = "--quick" in sys.argv
EPOCHS = 2 if QUICK else 20


class Digits(LightningModule):
    """A module as anybody would write it: the steps return logits and labels, and nothing else is asked of them."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.loss = fc.build_loss("flsc-531", epochs=EPOCHS)  # γ = 5, then 3, then 1: the callback tells it the epoch

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Compute the loss of a batch."""
        images, labels = batch
        return self.loss(self.network(images), labels)

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> dict[str, torch.Tensor]:
        """Return what the callback measures."""
        images, labels = batch
        return {"logits": self.network(images), "labels": labels}

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Train with Adam."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def load_parts() -> list[DataLoader]:
    """Split the 1,797 digits of scikit-learn into training, validation and test images."""
    digits = load_digits()
    images = TensorDataset(torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target))
    parts = random_split(images, [897, 400, 500], torch.Generator().manual_seed(0))
    return [DataLoader(part, batch_size=64, shuffle=number == 0) for number, part in enumerate(parts)]


def main() -> None:
    """Train, keep the weights that are best after temperature scaling, and measure them on the test images."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*does not have many workers")
    torch.manual_seed(0)
    train, val, test = load_parts()
    best = ModelCheckpoint(".", "digits", monitor="val/scaled_nll", mode="min", enable_version_counter=False)
    calibration = CalibrationCallback(keep="best", path="calibrator.json")
    trainer = Trainer(
        max_epochs=EPOCHS,
        callbacks=[calibration, best],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Digits(), train, val)
    module = Digits.load_from_checkpoint(best.best_model_path)
    print(f"{best.best_model_path}: validation NLL {best.best_model_score:.3f} after temperature scaling")

    predictions = fc.predict(module.network, test, split="test")
    scaler = fc.load_calibrator("calibrator.json")
    for title, each in (("uncalibrated", predictions), ("calibrated", scaler.transform(predictions))):
        result = fc.evaluate(each, metrics=["error", "ece", "nll"], intervals=False)
        print(f"{title:>13}: error {result['error']:.3f}, ECE {result['ece']:.4f}, NLL {result['nll']:.4f}")


if __name__ == "__main__":
    main()
