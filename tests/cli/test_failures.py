import pytest

from focalcal.cli.failures import sentence


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("name them with labels_key.", "name them with --labels-key."),
        ("pass allow_test=True to fit", "pass --allow-test to fit"),
        ("if these are logits use from_logits, or", "if these are logits name them with --logits-key, or"),
        ("data/ignore_index.npz: it is empty", "data/ignore_index.npz: it is empty"),
        ("two\nlines  of it", "two lines of it"),
    ],
)
def test_the_library_s_words_become_options(message, said):
    assert sentence(ValueError(message)) == said


def test_error_without_a_message_has_a_name():
    assert sentence(MemoryError()) == "MemoryError"


def test_help_names_the_command(focalcal):
    ran = focalcal("--help")
    assert ran.code == 0
    for command in ("evaluate", "calibrate", "doctor", "demo"):
        assert command in ran.out


@pytest.mark.parametrize("command", ["evaluate", "calibrate", "doctor"])
def test_help_has_examples_and_no_line_breaks_of_the_editor(focalcal, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ran = focalcal(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"focalcal {command} " in ran.out.split("Examples:")[1]
    assert "exit code" in ran.out or command == "calibrate"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluat",), "evaluate"),
        (("evaluate",), "PREDICTIONS"),
        (("doctor", "a", "b"), "extra argument"),
        (("calibrate", "--nothing"), "--nothing"),
    ],
)
def test_wrong_usage_is_one_sentence(refused, arguments, said):
    assert said in refused(*arguments)


def test_interruption(focalcal, monkeypatch, over_confident):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("focalcal.predictions.open_predictions", interrupted)
    ran = focalcal("evaluate", over_confident)
    assert ran.code == 130
    assert (ran.out, ran.err) == ("", "focalcal: interrupted.\n")
