"""The change of variables of the solver is one: gradients turn as parameters do."""

import pytest
import torch

from focalcal.calibrators import preconditioner
from focalcal.calibrators.preconditioner import Coordinates


def _coordinates(diagonal, classes=3):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, classes, generator=generator, dtype=torch.float64)
    importance = torch.rand(50, classes, generator=generator, dtype=torch.float64)
    start = torch.randn(classes, 2 if diagonal else classes + 1, generator=generator, dtype=torch.float64)
    return Coordinates.of(start, (inputs, importance), torch.full_like(start, 0.5), diagonal), inputs, importance


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("most_classes", [2, 128])
def test_gradients_belong_to_parameters(monkeypatch, diagonal, most_classes):
    monkeypatch.setattr(preconditioner, "_MOST_CLASSES_WITH_BLOCKS", most_classes)
    coordinates, _, _ = _coordinates(diagonal)
    phi = torch.randn(coordinates.start.numel(), dtype=torch.float64)
    gradient = torch.randn(coordinates.start.shape, dtype=torch.float64)
    move = coordinates.parameters(phi.numpy()) - coordinates.start
    assert float((move * gradient).sum()) == pytest.approx(
        float(torch.from_numpy(coordinates.gradient(gradient)) @ phi)
    )


def test_blocks_are_the_second_derivatives():
    coordinates, inputs, importance = _coordinates(diagonal=False)
    extended = torch.cat([inputs, torch.ones(50, 1, dtype=torch.float64)], dim=1)
    block = sum(s * torch.outer(x, x) for s, x in zip(importance[:, 1], extended, strict=True)) + 0.5 * torch.eye(4)
    torch.testing.assert_close(coordinates.factor[1] @ coordinates.factor[1].T, block, rtol=1e-4, atol=1e-4)


def test_a_class_that_no_sample_is_uncertain_about_is_not_singular():
    start = torch.zeros(2, 3, dtype=torch.float64)
    samples = (torch.randn(5, 2, dtype=torch.float64), torch.zeros(5, 2, dtype=torch.float64))
    coordinates = Coordinates.of(start, samples, torch.zeros_like(start), diagonal=False)
    assert coordinates.parameters(torch.ones(6, dtype=torch.float64).numpy()).isfinite().all()
