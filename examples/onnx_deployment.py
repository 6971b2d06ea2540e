"""Deployment: a trained network with its calibrator as one ONNX file, served without torch and without focalcal.

    python examples/onnx_deployment.py [--quick]

Needs pip install 'focalcal[onnx]'. Writes digits.onnx and temperature.json to the current folder.
"""

import json
import sys

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_digits
from torch import nn

import focalcal as fc

QUICK = "--quick" in sys.argv


def trained_network(images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """Train a small network for too long, so that it is over-confident."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(100 if QUICK else 400):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()
    return network


def main() -> None:
    """Calibrate on validation images, export, and answer with onnxruntime alone."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, val, test = order[:400], order[400:1000], order[1000:]

    network = trained_network(images[train], labels[train])
    val_preds = fc.predict(network, [(images[val], labels[val])], split="val", progress=False)
    scaler = fc.TemperatureScaling().fit(val_preds)
    scaler.save("temperature.json")

    written = fc.export_onnx(
        network, scaler, images[val][:32], "digits.onnx", metadata={"class_names": json.dumps(list("0123456789"))}
    )
    print(f"{written.path}: T = {scaler.temperature_:.2f}, checked on {written.rows} rows to {written.difference:.0e}")

    # What a service does: no torch, no focalcal.
    session = onnxruntime.InferenceSession("digits.onnx", providers=["CPUExecutionProvider"])
    probs = session.run(["probs"], {"input": images[test].numpy()})[0]
    print(f"First test image: a {probs[0].argmax()} with confidence {probs[0].max():.3f}")

    served = fc.evaluate(fc.Predictions.from_probs(probs, labels[test]), metrics=["ece", "nll"], intervals=False)
    test_preds = fc.predict(network, [(images[test], labels[test])], split="test", progress=False)
    before = fc.evaluate(test_preds, metrics=["ece", "nll"], intervals=False)
    print(f"ECE {before['ece']:.4f} → {served['ece']:.4f}, NLL {before['nll']:.4f} → {served['nll']:.4f}")

    # Temperature scaling is linear, so that it may as well become a part of the last layer.
    logits = network(images[test][:5]).detach().numpy()
    fc.fold_into(network, scaler, example=images[:8])
    folded = network(images[test][:5]).detach().numpy()
    print(f"Folded into the last layer: logits divided by {np.median(logits / folded):.2f}")


if __name__ == "__main__":
    main()
