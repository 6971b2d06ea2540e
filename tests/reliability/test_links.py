"""Nothing is written outside of the folder that a command was given: not through links, not by the text of a file."""

import os

import pytest

from focalcal.base.files import check_links
from focalcal.recipes import load_recipe
from focalcal.sweeps import read_task, sweep
from focalcal.training import train

SMALL = ("epochs=1", "data.train_size=60", "model.hidden=[8]", "hardware.threads=1", "hardware.accelerator=cpu")

pytestmark = pytest.mark.skipif(not hasattr(os, "symlink"), reason="There are no links.")


@pytest.fixture
def outside(tmp_path):
    """A file of the user's, which a link in a folder of somebody else's points to."""
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    yield file
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["history.jsonl", "environment.json", "config.yaml", "evaluation.json", ".lock"])
def test_a_run_is_not_written_through_a_link(tmp_path, outside, name):
    run = tmp_path / "run"
    run.mkdir()
    (run / name).symlink_to(outside)
    with pytest.raises(ValueError, match=rf"{name} is a link to .*mine\.txt, which lies outside of .*run|other recipe"):
        train(load_recipe("digits/mlp", SMALL), out=run, resume=True, progress=False)


@pytest.mark.parametrize("name", ["predictions", "checkpoints"])
def test_nor_through_a_link_to_a_folder(tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=f"{name} is a link to .*elsewhere"):
        train(load_recipe("digits/mlp", SMALL), out=tmp_path / "run", progress=False)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["table.csv", "report.html", "cross-entropy/seed-0/train.log"])
def test_a_sweep_is_not_written_through_a_link(tmp_path, outside, name):
    link = tmp_path / "sweep" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with pytest.raises(ValueError, match=f"{link.name} is a link to .*which lies outside of"):
        sweep("digits/mlp", SMALL, out=tmp_path / "sweep", losses=["cross-entropy"], progress=False)


def test_links_inside_of_a_folder_and_a_folder_that_is_a_link_are_fine(tmp_path):
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "b").symlink_to("a")
    (tmp_path / "run").symlink_to(tmp_path / "real")
    check_links(tmp_path / "run")
    check_links(tmp_path / "not there")
    (tmp_path / "real" / "a" / "deep").symlink_to("/etc/hostname")
    check_links(tmp_path / "run", below=False)
    with pytest.raises(ValueError, match=r"deep is a link to /etc/hostname"):
        check_links(tmp_path / "run")


def test_a_task_whose_folder_is_a_link_out_of_its_sweep(tmp_path):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "away").symlink_to(tmp_path)
    (tmp_path / "sweep" / "inside").symlink_to("real")
    for folder, is_outside in (("away", True), ("away/x", True), ("inside", False)):
        tasks = tmp_path / "sweep" / "tasks.jsonl"
        tasks.write_text(f'{{"recipe": "digits/mlp", "changes": [], "out": "{folder}"}}\n')
        if is_outside:
            with pytest.raises(ValueError, match=r"tasks\.jsonl, line 1, .* is not a folder of the sweep, but a link"):
                read_task(tasks, 0)
        else:
            assert read_task(tasks, 0).path == tasks.parent / folder


@pytest.mark.parametrize(
    "folder", ["/etc/x", "../x", "a/../../x", "a/b/../../../x", "a\\u0000b", 300 * "a", 3000 * "é"]
)
def test_a_task_names_no_folder_outside_of_its_sweep(tmp_path, folder):
    (tmp_path / "tasks.jsonl").write_text(f'{{"recipe": "digits/mlp", "changes": [], "out": "{folder}"}}\n')
    with pytest.raises(ValueError, match=r"tasks\.jsonl, line 1, is not a task of a sweep \(.* is not a folder of"):
        read_task(tmp_path / "tasks.jsonl", 0)
