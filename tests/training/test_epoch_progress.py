"""What is shown: lines in a file, a bar on a terminal, nothing when nobody asked."""

import io

from focalcal.training import epoch_progress

RECORD = {"epoch": 0, "train": {"loss": 0.5}, "val": {"error": 0.1, "nll": 0.4, "ece": 0.02}}


def show(display):
    display.start(2, 3, 0)
    display.step(0, 1, 0.75)
    display.epoch(RECORD)
    display.note("Something happened.")
    display.close()


def test_lines(capsys):
    show(epoch_progress.progress_display(True, "tiny"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("tiny: epoch 1/2  loss 0.500, validation error 10.0%, NLL 0.400, ECE 2.0%  0:0")
    assert lines[0].endswith(" left")
    assert lines[1:] == ["tiny: Something happened."]


def test_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    show(epoch_progress.progress_display(True, "tiny"))
    assert "epoch 1/2" in terminal.getvalue()
    assert "validation error 10.0%" in terminal.getvalue()
    assert "Something happened." in terminal.getvalue()


def test_silence(capsys):
    show(epoch_progress.progress_display(False, "tiny"))
    assert capsys.readouterr().err == ""
