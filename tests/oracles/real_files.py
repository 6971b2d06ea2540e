"""The two prediction files of real networks, for tests that compare with other libraries."""

import os
from pathlib import Path

import numpy as np
import pytest

from focalcal.predictions import Predictions

REAL_FILES = ("wideresnet-16-4-cifar-10", "densenet-bc-100-cifar-100")


def real_arrays(name):
    """Softmax outputs (10,000, K) in double precision and labels (10,000,); skips the test where they are missing."""
    folder = os.environ.get("FOCALCAL_DATA")
    if not folder:
        pytest.skip("FOCALCAL_DATA is not set: it names the folder with predictions/*.npz of real networks.")
    path = Path(folder, "predictions", f"{name}.npz")
    if not path.is_file():
        pytest.skip(f"FOCALCAL_DATA has no predictions/{name}.npz.")
    with np.load(path, allow_pickle=False) as file:
        return file["predictions"].astype(np.float64), file["ground_truth"].ravel().astype(np.int64)


def real_predictions(name):
    return Predictions.from_probs(*real_arrays(name))
