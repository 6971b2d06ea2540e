"""Calibrators by name."""

import pytest

import focalcal.calibrators as cal
from focalcal.calibrators import METHODS, build_calibrator
from oracles.calibrators import build

NAMES = {
    "auto": cal.AutoCalibration,
    "beta": cal.BetaCalibration,
    "dirichlet": cal.DirichletCalibration,
    "ensemble-temperature": cal.EnsembleTemperatureScaling,
    "focal-inverse": cal.FocalInverse,
    "focal-temperature": cal.FocalTemperatureScaling,
    "histogram": cal.HistogramBinning,
    "identity": cal.Identity,
    "isotonic": cal.IsotonicCalibration,
    "matrix": cal.MatrixScaling,
    "platt": cal.PlattScaling,
    "quadratic": cal.QuadraticScaling,
    "structured-matrix": cal.StructuredScaling,
    "structured-vector": cal.StructuredScaling,
    "temperature": cal.TemperatureScaling,
    "temperature-ece": cal.TemperatureScaling,
    "vector": cal.VectorScaling,
}


def test_every_name_builds_its_calibrator():
    assert set(METHODS) == set(NAMES)
    for name, kind in NAMES.items():
        assert type(build(name)) is kind
    assert build_calibrator("temperature").objective == "nll"
    assert build_calibrator("temperature-ece").objective == "ece"
    assert build_calibrator("structured-vector").kind == "vector"
    assert build_calibrator("structured-matrix", strength="cv").strength == "cv"


def test_options_reach_the_constructor():
    assert build_calibrator("histogram", bins=7).bins == 7
    assert build_calibrator("temperature-ece", grid=[1.0]).grid == [1.0]


@pytest.mark.parametrize(
    ("name", "hint"), [("temperatur", "temperature"), ("isotonik", "isotonic"), ("vektor", "vector")]
)
def test_a_misspelt_name_gets_the_nearest(name, hint):
    with pytest.raises(ValueError, match=f"There is no calibrator '{name}'; did you mean '{hint}'"):
        build_calibrator(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(ValueError, match="there are auto, beta, dirichlet"):
        build_calibrator("zzzz")


def test_options_are_checked_by_name():
    with pytest.raises(TypeError, match=r"'vector' has no option 'bins'; its options are: intercept_penalty"):
        build_calibrator("vector", bins=3)
    with pytest.raises(
        TypeError, match="'temperature-ece' has no option 'objective'; its options are: grid, bins, mix_uniform"
    ):
        build_calibrator("temperature-ece", objective="nll")
    with pytest.raises(TypeError, match="'identity' has no option 'x'; its options are: none"):
        build_calibrator("identity", x=1)
    with pytest.raises(TypeError, match="'focal-inverse' needs the option 'gamma'"):
        build_calibrator("focal-inverse")
