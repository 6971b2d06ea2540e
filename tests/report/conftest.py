"""Reports of several kinds, each written once, and one browser for all tests."""

import json
import os
import shutil
import zlib
from pathlib import Path
from struct import pack

import pytest
import torch

from focalcal.predictions import Predictions
from focalcal.report import write_report

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "a" * 80, "plain")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def world(n, classes, *, seed=0, sharpness=2.0, **more):
    """Predictions of logits z whose labels are drawn from softmax(z), said ``sharpness`` times too sharply."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, classes, generator=generator) * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return Predictions.from_logits(logits * sharpness, labels, **more)


def png(shade):
    """A grey image of one pixel."""

    def chunk(kind, content):
        return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))

    head = pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixel = zlib.compress(bytes([0, shade]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def make_run(folder, *, seed, sharpness, epochs=5, ood=True):
    """A run directory as a training leaves it."""
    (folder / "predictions").mkdir(parents=True)
    for split, offset in (("val", 1), ("test", 0)):
        ids = [f"{split}-{i}" for i in range(500)]
        preds = world(500, 4, seed=10 + offset, sharpness=sharpness, split=split, ids=ids, class_names=list("abcd"))
        noise = 0.3 * torch.randn(500, 4, generator=torch.Generator().manual_seed(seed))
        preds.with_values(preds.values + noise, "logits").save(folder / "predictions" / f"{split}.safetensors")
    if ood:
        world(300, 4, seed=5, sharpness=0.3, split="svhn").save(folder / "predictions" / "svhn.safetensors")
    (folder / "config.yaml").write_text("loss: flsd-53  # <b>not bold</b>\n")
    lines = []
    for epoch in range(epochs):
        of = {"nll": 1 / (1 + epoch), "error": 0.5 / (1 + epoch), "ece": 0.02 * epoch}
        of |= {"entropy_right": 0.5, "entropy_wrong": 1.0, "temperature": 1.2}
        line = {"epoch": epoch, "train": of, "val": of, "gammas": {"3": 0.8, "5": 0.2}}
        lines.append(json.dumps(line | ({"test": of} if epoch == epochs - 1 else {})))
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """A folder for reports, and a function that writes each of them once."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def page(name):
        if name not in made:
            made[name] = _MAKERS[name](folder / f"{name}.html", folder)
        return made[name]

    return page


def single(out, folder):
    test = world(800, 4, ids=[f"id-{i}" for i in range(800)], class_names=HOSTILE, split="test")
    images = {f"id-{i}": png(i % 256) for i in range(800)}
    val = world(800, 4, seed=1, class_names=HOSTILE, split="val")
    return write_report({"<i>model</i>": test}, out, val=val, bootstrap=100, thumbnails=images)


def comparison(out, folder):
    runs = [
        make_run(folder / "cross-entropy", seed=1, sharpness=2.5),
        make_run(folder / "flsd-53", seed=2, sharpness=1.2, ood=False),
    ]
    return write_report(runs, out, bootstrap=100, command="focalcal report cross-entropy flsd-53")


def many_classes(out, folder):
    return write_report(world(1200, 1000), out, bootstrap=20)


def tiny(out, folder):
    return write_report(all_right(), out, bootstrap=100)


def all_right():
    """Twenty predictions without a mistake: no finite temperature is best."""
    logits = world(20, 2).values
    return Predictions.from_logits(logits, logits.argmax(1))


def sharp(out, folder):
    """So over-confident that the temperature lies beyond the slider's own."""
    test, val = (world(300, 3, seed=seed, sharpness=20.0) for seed in (0, 1))
    return write_report(test, out, val=val, bootstrap=0)


_MAKERS = {maker.__name__: maker for maker in (single, comparison, many_classes, tiny, sharp)}


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium."""
    path = os.environ.get("FOCALCAL_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("There is no chromium on the path; install it, or name it in FOCALCAL_CHROMIUM, for browser tests.")
    sync_api = pytest.importorskip("playwright.sync_api", reason="Browser tests need the package playwright.")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


class Reader:
    """One report in one window of the browser, which stays open from test to test: opening takes seconds."""

    def __init__(self, browser, path):
        self.complaints = []
        self._uri = Path(path).resolve().as_uri()
        self.tab = browser.new_context(viewport=_WINDOW, offline=True, color_scheme="light").new_page()
        self.tab.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", self._refuse)
        self.tab.on("settings", self._check)
        self.tab.goto(self._uri, timeout=120_000)
        self.tab.wait_for_selector("html[data-ready][data-drawn]", timeout=120_000)

    def _refuse(self, dialog):
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _check(self, settings):
        if settings.url != self._uri and not settings.url.startswith(("data:", "blob:")):
            self.complaints.append(f"settings {settings.url}")

    def as_at_first(self):
        """Undo what the last test did."""
        self.tab.set_viewport_size(_WINDOW)
        self.tab.emulate_media(media="screen", color_scheme="light")
        self.tab.evaluate(_UNDO)
        self.tab.wait_for_selector("html[data-drawn]")
        return self.tab


_WINDOW = {"width": 1280, "height": 900}
_UNDO = """() => {
  const set = (id, key, value, event) => {
    const found = document.getElementById(id);
    if (!found || found[key] === value) return;
    found[key] = value;
    found.dispatchEvent(new Event(event, {bubbles: true}));
  };
  set("model", "value", "0", "change");
  set("bins", "value", "15", "change");
  set("smooth", "checked", true, "change");
  set("other", "checked", true, "change");
  set("class-filter", "value", "", "input");
  document.querySelector("input[value=width]").click();
  document.getElementById("go-neutral").click();
}"""


@pytest.fixture(scope="session")
def readers(browser, pages):
    found = {}

    def reader(name):
        if name not in found:
            found[name] = Reader(browser, pages(name))
        return found[name]

    return reader


@pytest.fixture
def opened(readers):
    """Open a report as a user does; it must never complain, nor ask any network."""
    used = []

    def open_page(name):
        used.append(readers(name))
        return used[-1].as_at_first()

    yield open_page
    for reader in used:
        assert reader.complaints == []
