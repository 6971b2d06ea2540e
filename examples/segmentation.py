"""Focal loss and calibration per pixel: logits (N, K, H, W), with a border that nobody labelled.

    python examples/segmentation.py [--quick]

Needs nothing beyond focalcal.
"""

import sys

import torch
from torch import nn

import focalcal as fc

QUICK = "--quick" in sys.argv
IGNORED = 255  # label of pixels between two regions, as in PASCAL VOC and Cityscapes
CLASSES = ("background", "disc", "bar")


def draw_scenes(count: int, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw noisy images (N, 1, S, S) of a disc and a bar, and their labels (N, S, S)."""
    generator = torch.Generator().manual_seed(seed)
    row, column = torch.arange(size).view(1, -1, 1), torch.arange(size).view(1, 1, -1)
    centre = torch.randint(size // 4, 3 * size // 4, (count, 2, 1, 1), generator=generator)
    distance = ((row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2).sqrt() - size / 5
    left = torch.randint(size - 4, (count, 1, 1), generator=generator)
    labels = torch.zeros(count, size, size, dtype=torch.long)
    labels[((column >= left) & (column < left + 4)).expand_as(labels)] = 2
    labels[distance < 0] = 1
    images = labels.float().unsqueeze(1) + 1.2 * torch.randn(count, 1, size, size, generator=generator)
    labels[distance.abs() < 1] = IGNORED
    return images, labels


def train(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Train on mini-batches; the only line that is not everybody's is the loss."""
    criterion = fc.FocalLoss(fc.SampleGamma.flsd53(), ignore_index=IGNORED)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(16):
            optimizer.zero_grad()
            criterion(network(images[batch]), labels[batch]).backward()
            optimizer.step()


@torch.no_grad()
def predict(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, split: str) -> fc.Predictions:
    """Keep one prediction per labelled pixel; pixels of one image are a cluster."""
    return fc.Predictions.from_logits(
        network(images), labels, ids=range(len(images)), class_names=CLASSES, split=split, ignore_index=IGNORED
    )


def main() -> None:
    """Train, measure every pixel, fit a temperature on validation images, measure again."""
    torch.manual_seed(0)
    count, size, epochs = (24, 16, 4) if QUICK else (200, 32, 15)
    scenes = {split: draw_scenes(count, size, seed) for seed, split in enumerate(("train", "val", "test"))}
    network = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 3, 1)
    )
    train(network, *scenes["train"], epochs=epochs)
    val, test = (predict(network, *scenes[split], split=split) for split in ("val", "test"))
    scaler = fc.TemperatureScaling().fit(val)
    print(f"{len(test):,} labelled pixels, T = {scaler.temperature_:.2f} by validation NLL")
    for title, predictions in (("uncalibrated", test), ("calibrated", scaler.transform(test))):
        # Neighbouring pixels are not independent: the interval is that of whole images, which are clusters here.
        result = fc.evaluate(predictions, metrics=["error", "ece", "nll"], bootstrap=None)
        low, high = result.intervals["ece"]
        values = (
            f"error {result['error']:.3f}, ECE {result['ece']:.4f} [{low:.4f}, {high:.4f}], NLL {result['nll']:.4f}"
        )
        print(f"{title:>13}: {values}")


if __name__ == "__main__":
    main()
