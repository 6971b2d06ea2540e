"""Images of your own, one folder per class: trained by a packaged recipe, calibrated, and the worst mistakes by file.

    python examples/own_images.py [--quick]

Needs nothing beyond focalcal. The pictures are drawn into ./pictures first; with pictures of your own the same run is

    focalcal train cifar10/resnet8 data=images data.path=pictures data.size=24 --out runs/pictures
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import focalcal as fc

QUICK = "--quick" in sys.argv
SHAPES = ("circle", "cross", "square")


def draw_pictures(folder: Path, per_class: int) -> None:
    """Draw noisy shapes as PNG files of different sizes: folder/circle/0001.png and so on."""
    random = np.random.default_rng(0)
    for shape in SHAPES:
        (folder / shape).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            width, height = random.integers(28, 44, 2).tolist()
            picture = Image.new("RGB", (width, height), tuple(random.integers(0, 120, 3).tolist()))
            draw, colour = ImageDraw.Draw(picture), tuple(random.integers(100, 256, 3).tolist())
            left, top = (int(place) for place in random.integers(6, 12, 2))
            box = (left, top, left + 13, top + 13)
            if shape == "circle":
                draw.ellipse(box, outline=colour, width=2)
            elif shape == "square":
                draw.rectangle(box, outline=colour, width=2)
            else:
                draw.line((box[0], box[1], box[2], box[3]), fill=colour, width=2)
                draw.line((box[0], box[3], box[2], box[1]), fill=colour, width=2)
            noise = random.normal(0, 100, (height, width, 3))
            pixels = (np.asarray(picture) + noise).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / shape / f"{number:04d}.png")


def main() -> None:
    """Draw, train with two losses, and print each before and after temperature scaling."""
    draw_pictures(Path("pictures"), 20 if QUICK else 250)
    for loss in ("cross-entropy", "flsd-53"):
        changes = {
            "data": "images",
            "data.path": "pictures",
            "data.size": 24,  # the middle of each picture, resized: they differ in size
            "loss": loss,
            "epochs": 2 if QUICK else 20,
            "batch_size": 32,
        }
        run = fc.train(fc.load_recipe("cifar10/resnet8", changes), out=f"runs/{loss}", progress=False)
        val, test = run.predictions("val"), run.predictions("test")
        scaler = fc.TemperatureScaling().fit(val)
        print(
            f"{loss}: {len(test)} test pictures, classes {', '.join(test.class_names)}, T = {scaler.temperature_:.2f}"
        )
        for title, predictions in (("uncalibrated", test), ("calibrated", scaler.transform(test))):
            result = fc.evaluate(predictions, metrics=["error", "ece", "nll"])
            low, high = result.intervals["ece"]
            print(f"{title:>13}: error {result['error']:.3f}, ECE {result['ece']:.3f} [{low:.3f}, {high:.3f}]")
    confidence, answer = test.probs().max(dim=1)
    wrong = (answer != test.labels).nonzero().flatten().tolist()
    for row in sorted(wrong, key=lambda row: -float(confidence[row]))[:3]:
        said = test.class_names[answer[row]]
        print(f"mistake: pictures/{test.ids[row]} was called {said} with confidence {confidence[row]:.2f}")


if __name__ == "__main__":
    main()
