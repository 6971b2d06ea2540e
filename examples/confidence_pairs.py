"""Only a confidence and whether it was right: stated confidences of a chat model, measured and calibrated.

    python examples/confidence_pairs.py [--quick]

Needs nothing beyond focalcal. The answers are made up here; with answers of your own, a table with the columns
confidence and correct is all that is needed.
"""

import sys

import numpy as np

import focalcal as fc

QUICK = "--quick" in sys.argv


def ask_questions(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what a model says how sure it is, in steps of 5%, whether it was right, and the topic of each question."""
    random = np.random.default_rng(seed)
    topic = random.choice(["history", "mathematics"], count)
    chance = random.beta(4, 2, count) * np.where(topic == "mathematics", 0.75, 1.0)
    # Such models seldom say less than 60%, and like round numbers.
    stated = np.round((0.6 + 0.4 * chance**0.7) * 20) / 20
    return stated, random.random(count) < chance, topic


def main() -> None:
    """Measure the stated confidences, per topic too, and calibrate them by a monotone map of two parameters."""
    count = 300 if QUICK else 3000
    val, test = (
        fc.Predictions.from_confidence(stated, correct, groups={"topic": topic}, split=split)
        for split, (stated, correct, topic) in (("val", ask_questions(count, 0)), ("test", ask_questions(count, 1)))
    )
    calibrator = fc.PlattScaling().fit(val)
    for title, predictions in (("uncalibrated", test), ("calibrated", calibrator.transform(test))):
        result = fc.evaluate(predictions, metrics=["accuracy", "mean_confidence", "ece"], bootstrap=200)
        low, high = result.intervals["ece"]
        said = f"says {result['mean_confidence']:.3f} on average and is right in {result['accuracy']:.3f}"
        print(f"{title:>13}: {said}; ECE {result['ece']:.3f} [{low:.3f}, {high:.3f}]")
    for topic in sorted(set(test.groups["topic"].texts())):
        rows = [row for row, name in enumerate(test.groups["topic"].texts()) if name == topic]
        print(f"{topic:>13}: ECE {fc.metrics.ece(calibrator.transform(test).select(rows)):.3f} after calibration")


if __name__ == "__main__":
    main()
