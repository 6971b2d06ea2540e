"""The swap in plain PyTorch: FLSD-53 instead of cross-entropy, measured each epoch, then one temperature.

    python examples/plain_pytorch.py [--quick]

Needs nothing beyond focalcal. Writes test.safetensors and temperature.json to the current folder.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import focalcal as fc

QUICK = "--quick" in sys.argv


def split_digits() -> dict[str, TensorDataset]:
    """Split the 1,797 digits of scikit-learn into training, validation and test images."""
    digits = load_digits()
    images = TensorDataset(torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target))
    parts = random_split(images, [897, 400, 500], torch.Generator().manual_seed(0))
    return dict(zip(("train", "val", "test"), parts, strict=True))


def train(network: nn.Module, train: DataLoader, val: DataLoader, epochs: int) -> None:
    """Train; the loss is the only line that differs from cross-entropy."""
    criterion = fc.FocalLoss("flsd-53")
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for epoch in range(epochs):
        network.train()
        for images, labels in train:
            optimizer.zero_grad()
            criterion(network(images), labels).backward()
            optimizer.step()
        network.eval()
        measured = fc.Accumulator(num_classes=10)
        with torch.no_grad():
            for images, labels in val:
                measured.update(logits=network(images), labels=labels)
        result = measured.compute()
        print(f"epoch {epoch + 1:>2}: error {result['error']:.3f}, ECE {result['ece']:.3f}, NLL {result['nll']:.3f}")


def main() -> None:
    """Train, fit a temperature on the validation images, and measure the test images before and after."""
    torch.manual_seed(0)
    parts = split_digits()
    loaders = {name: DataLoader(part, batch_size=64, shuffle=name == "train") for name, part in parts.items()}
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    train(network, loaders["train"], loaders["val"], epochs=2 if QUICK else 60)

    val, test = (fc.predict(network, loaders[split], split=split) for split in ("val", "test"))
    scaler = fc.TemperatureScaling().fit(val)
    test.save("test.safetensors")
    scaler.save("temperature.json")
    print(f"T = {scaler.temperature_:.2f} by validation NLL")
    for title, predictions in (("uncalibrated", test), ("calibrated", scaler.transform(test))):
        result = fc.evaluate(predictions, metrics=["error", "ece", "nll"], intervals=False)
        print(f"{title:>13}: error {result['error']:.3f}, ECE {result['ece']:.4f}, NLL {result['nll']:.4f}")


if __name__ == "__main__":
    main()
