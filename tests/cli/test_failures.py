import pytest

from focalcal import __version__
from focalcal.cli.failures import sentence


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("name them with labels_key.", "name them with --labels-key."),
        ("pass allow_test=True to fit", "pass --allow-test to fit"),
        ("if these are logits use from_logits, or", "if these are logits name them with --logits-key, or"),
        ("data/ignore_index.npz: it is empty", "data/ignore_index.npz: it is empty"),
        ("two\nlines  of it", "two lines of it"),
        ("pass for example level=0.9.", "pass for example --level 0.9."),
        ("read them with probs_key='score'.", "read them with --probs-key score."),
    ],
)
def test_the_library_s_words_become_options(message, said):
    assert sentence(ValueError(message)) == said


def test_error_without_a_message_has_a_name():
    assert sentence(MemoryError()) == "MemoryError"


def test_an_error_of_the_system_has_no_number():
    """A folder that cannot be written to: "[Errno 30] Read-only file system: 'runs/a/.lock'"."""
    error = OSError(30, "Read-only file system", "runs/a/.lock")
    assert sentence(error) == "runs/a/.lock cannot be read or written: Read-only file system."
    assert sentence(OSError("stale file handle")) == "stale file handle"


def test_help_names_the_command(focalcal):
    ran = focalcal("--help")
    assert ran.code == 0
    for command in ("evaluate", "calibrate", "compare", "sweep", "doctor", "demo"):
        assert command in ran.out


@pytest.mark.parametrize("command", ["evaluate", "calibrate", "compare", "sweep", "doctor"])
def test_help_has_examples_and_no_line_breaks_of_the_editor(focalcal, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ran = focalcal(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"focalcal {command} " in ran.out.split("Examples:")[1]
    assert "exit code" in ran.out or command in ("calibrate", "compare")


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


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 3 TB")])
def test_too_little_memory_is_one_sentence(refused, monkeypatch, over_confident, error):
    def too_large(*_, **__):
        raise error

    monkeypatch.setattr("focalcal.predictions.open_predictions", too_large)
    assert "there is not enough memory for this" in refused("evaluate", over_confident)


@pytest.mark.parametrize("error", [KeyError("x"), AssertionError(), RuntimeError("shape"), ZeroDivisionError("0")])
def test_a_bug_of_ours_is_one_sentence_and_exit_code_3(focalcal, monkeypatch, over_confident, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("focalcal.predictions.open_predictions", broken)
    ran = focalcal("evaluate", over_confident)
    assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert f"this is a bug in focalcal {__version__} ({type(error).__name__} in test_failures.py, line" in ran.err
    assert "--traceback" in ran.err
    for arguments in (("evaluate", over_confident, "--traceback"), ("--traceback", "evaluate", over_confident)):
        ran = focalcal(*arguments)
        assert ran.code == 3
        assert "Traceback (most recent call last)" in ran.err
        assert "in broken" in ran.err


def test_traceback_of_bad_input(focalcal, tmp_path):
    ran = focalcal("evaluate", tmp_path / "nothing.npz", "--traceback")
    assert ran.code == 2
    assert ran.err.startswith("Traceback")
    assert ran.err.endswith(f"focalcal: There is no file {tmp_path / 'nothing.npz'}.\n")


def test_a_missing_extra_is_wrong_usage_and_another_import_error_is_a_bug(focalcal, monkeypatch, over_confident):
    for message, code in (
        ("It needs focalcal[plots].", 2),
        ("cannot import name 'x'", 3),
    ):

        def broken(*_, message=message, **__):
            raise ImportError(message)

        monkeypatch.setattr("focalcal.predictions.open_predictions", broken)
        assert focalcal("evaluate", over_confident).code == code


def test_interruption(focalcal, monkeypatch, over_confident):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("focalcal.predictions.open_predictions", interrupted)
    ran = focalcal("evaluate", over_confident)
    assert ran.code == 130
    assert (ran.out, ran.err) == ("", "focalcal: interrupted.\n")


HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e"


def test_names_from_a_file_do_not_reach_the_terminal_as_commands(focalcal, refused, tmp_path):
    rows = "".join(f'1.5,2,{HOSTILE},"{HOSTILE}\n{number % 2}"\n2,1,b,c\n' for number in range(30))
    (tmp_path / "p.csv").write_text(f"logits_0,logits_1,labels,site\n{rows}", encoding="utf-8")
    shown = focalcal("evaluate", tmp_path / "p.csv", "--no-intervals", "--by", "site").out
    assert "\\x1b[31mred" in shown
    assert "\\u202e" in shown
    assert not set(HOSTILE[:1] + HOSTILE[-1] + "\x07\x9b") & set(shown)
    said = refused("evaluate", tmp_path / f"{HOSTILE}.csv", "--no-intervals")
    assert "\\x1b[31mred" in said
    assert "\x1b" not in said


def test_a_message_is_of_a_readable_length():
    said = sentence(ValueError(f"{'a' * 10_000} is not the name of a class; correct {'b' * 10_000}."))
    assert 2000 < len(said) < 3100
    assert said.startswith("aaaa")
    assert said.endswith("bbb.")
