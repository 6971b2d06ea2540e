"""States of chance are saved and restored."""

import random

import numpy as np
import torch

from focalcal.training.randomness import derived_seed, generator, random_state, restore_random_state, seed_everything


def draw():
    return random.random(), float(np.random.rand()), float(np.random.normal()), float(torch.randn(()))  # noqa: NPY002


def test_round_trip():
    seed_everything(3)
    draw()
    random.gauss(0, 1)  # leaves a second number in store
    np.random.normal()  # noqa: NPY002 - so does numpy
    kept = random_state()
    first = [draw(), random.gauss(0, 1)]
    draw()
    restore_random_state(kept)
    assert [draw(), random.gauss(0, 1)] == first


def test_seeds_are_apart():
    seeds = {derived_seed(seed, "order", epoch) for seed in range(20) for epoch in range(20)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert torch.equal(torch.rand(3, generator=generator(1, "a")), torch.rand(3, generator=generator(1, "a")))
