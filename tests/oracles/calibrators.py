"""Every calibrator of the registry, and data that it can be fitted on."""

from focalcal.calibrators import METHODS, build_calibrator
from oracles.temperature import sampled_predictions

TWO_CLASSES = ("beta", "platt", "quadratic")
LEARNING = tuple(method for method in METHODS if method not in ("identity", "focal-inverse"))
STEPS = ("histogram", "isotonic")


def build(method):
    return build_calibrator(method, **({"gamma": 2.0} if method == "focal-inverse" else {}))


def classes_of(method, classes=4):
    return 2 if method in TWO_CLASSES else classes


def validation(method, samples=300, classes=4, scale=2.0, **options):
    """Over-confident predictions with as many classes as the method takes."""
    return sampled_predictions(samples, classes_of(method, classes), scale, **options)
