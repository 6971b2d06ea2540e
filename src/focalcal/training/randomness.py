"""Randomness: everything is drawn from the run's seed and the place in the run, nothing from the clock."""

import hashlib
import json
import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from focalcal.base.files import parse_json


def derived_seed(seed: int, *place: int | str) -> int:
    """Derive a seed for each purpose and place: the same ones give the same seed, others an unrelated one.

    Examples:
        >>> derived_seed(0, "order", 3) == derived_seed(0, "order", 3), derived_seed(0, 3) == derived_seed(1, 3)
        (True, False)
    """
    digest = hashlib.sha256("/".join(map(str, (seed, *place))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, *place: int | str) -> torch.Generator:
    """Make a generator on the CPU for one purpose at one place of the run."""
    return torch.Generator().manual_seed(derived_seed(seed, *place))


def seed_everything(seed: int) -> None:
    """Seed what a network or a user's data set may draw from: torch on every device, numpy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the global state is what users' code draws from
    random.seed(seed)


def random_state() -> Tensor:
    """Return the state of every global generator of this process, as bytes: (n,) uint8."""
    kind, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    state: dict[str, Any] = {
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "cuda": [one.numpy().tobytes().hex() for one in torch.cuda.get_rng_state_all()],
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
        "python": random.getstate(),
    }
    return torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)


def restore_random_state(packed: Tensor) -> None:
    """Set every global generator to a state that `random_state` returned."""
    state = parse_json(packed.numpy().tobytes())
    torch.set_rng_state(_bytes(state["torch"]))
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([_bytes(one) for one in state["cuda"]])
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))


def _bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
