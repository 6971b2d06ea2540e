"""A fixed set of the cases of attack.py, and proof that its checks can fail."""

import itertools
import shutil
import time
import warnings

import pytest

from focalcal.predictions import Predictions
from reliability.attack import Attack, run_cases
from reliability.checks import Failure, check_nothing_lost, limited, refused_or, run_cli
from reliability.corpus import Sample
from reliability.folders import results_commands, sweep_commands

pytestmark = pytest.mark.slow

CASES, COMMANDS_EVERY = 1200, 60


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Attack(tmp_path_factory.mktemp("attack"), seed=1, commands_every=COMMANDS_EVERY)


@pytest.mark.parametrize("part", range(4))
def test_every_case_ends_in_a_result_or_in_one_sentence(attack, part):
    tally = run_cases(attack, part * CASES // 4, CASES // 4)
    assert tally.failures == []
    assert sum(tally.outcomes.values()) == CASES // 4
    for kind in ("predictions", "calibrator", "recipe", "data"):
        assert tally.outcomes[f"{kind}: refused"]
        assert tally.outcomes[f"{kind}: read"]


@pytest.mark.filterwarnings("ignore")
def test_the_valid_files_are_read_by_every_command(attack):
    """Otherwise the attack would be one on files that are refused for another reason."""
    (attack.folder / "case").mkdir(exist_ok=True)
    valid = attack.folder / "valid"
    for name in ("full.npz", "probs.parquet", "soft.csv", "masked.safetensors"):
        assert run_cli("doctor", valid / name) in (0, 1)
        out = attack.folder / "case"
        assert run_cli("calibrate", valid / name, valid / name, "--allow-test", "--out", out / "a.npz") == 0
    assert run_cli("report", valid / "full.npz", "--out", attack.folder / "case" / "r.html") == 0
    assert run_cli("evaluate", attack.folders.run, "--no-intervals") == 0
    for sample in attack.predictions:
        (attack.folder / "case" / sample.name).write_bytes(sample.content)
        assert Predictions.load(attack.folder / "case" / sample.name)


@pytest.mark.filterwarnings("ignore")
def test_whole_folders_are_read_by_every_command(attack):
    """A study that there is not and tasks that were not written were attacked, and refused whatever was damaged."""
    case = attack.folder / "case"
    shutil.rmtree(case, ignore_errors=True)
    for whole, commands in ((attack.folders.sweep, sweep_commands), (attack.folders.results, results_commands)):
        shutil.copytree(whole, case / whole.name)
        assert [(run_cli(*command), command) for command in commands(case / whole.name)] == [
            (0, command) for command in commands(case / whole.name)
        ]
    shutil.rmtree(case)


def test_the_same_case_is_the_same_again(attack):
    assert [attack.case(number) for number in range(40)] == [attack.case(number) for number in range(40)]
    shutil.rmtree(attack.folder / "case")


def test_a_bug_a_hang_and_a_loss_are_noticed(attack, tmp_path, monkeypatch):
    path = tmp_path / "file.npz"
    for error in (ValueError("the file is wrong"), ValueError(""), ValueError("x" * 10_000)):
        with pytest.raises(Failure):
            refused_or(path, lambda error=error: (_ for _ in ()).throw(error))
    with pytest.raises(KeyError):
        refused_or(path, lambda: {}["x"])
    with pytest.raises(Failure, match="a hang"), limited(60, waiting=0.1):
        time.sleep(60)
    with pytest.raises(Failure, match="a hang"), limited(0.1):
        for _ in itertools.repeat(1):  # a loop of Python: no signal interrupts one of C
            pass
    full = next(sample for sample in attack.predictions if sample.name == "full.npz")
    lost = Predictions.from_logits(full.preds.values, full.preds.labels, split="val")
    with pytest.raises(Failure, match="weights was lost in silence"):
        check_nothing_lost(Sample("full.npz", b"", full.preds), attack.folder / "valid" / "full.npz", lost)
    monkeypatch.setattr("focalcal.predictions.open_predictions", lambda *_, **__: {}["x"])
    with pytest.raises(Failure, match="exit code 3"):
        run_cli("evaluate", attack.folder / "valid" / "full.npz")
