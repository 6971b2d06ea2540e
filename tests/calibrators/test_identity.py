"""The identity."""

import torch

from focalcal.calibrators import Identity
from focalcal.metrics.calibration_error import ece
from focalcal.metrics.scores import nll
from oracles.temperature import sampled_predictions


def test_nothing_changes_and_the_fit_records_it():
    val = sampled_predictions(100, 3, 2.0)
    identity = Identity().fit(val)
    assert identity.transform(val) is val
    assert identity.record_.nll_before == identity.record_.nll_after == nll(val)
    assert identity.record_.ece_before == identity.record_.ece_after == ece(val)
    assert torch.equal(identity.to_module()(val.values), val.values)
