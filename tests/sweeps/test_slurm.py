import json
import os
import subprocess
from pathlib import Path

import pytest

from focalcal.sweeps import Plan, plan_grid, read_task, write_slurm_job

TINY = ("epochs=1", "data.train_size=50", "model.hidden=[8]")


def plans(out, **grid):
    return plan_grid(["digits/mlp"], TINY, grid, ("cross-entropy", "fl-3"), (0, 1), out)


def directives(script):
    """The options that SLURM reads: those before the first command."""
    head = script.read_text().partition("\nset -eu")[0].splitlines()
    return [line.removeprefix("#SBATCH --") for line in head if line.startswith("#SBATCH")]


def test_one_task_per_run(tmp_path):
    grid = {"optimizer.lr": ["0.05", "0.1"]}
    job = write_slurm_job(plan_grid(["digits/mlp"], TINY, grid, ("fl-3",), (0, 1), tmp_path), tmp_path, jobs=3)
    lines = [json.loads(line) for line in job.tasks.read_text().splitlines()]
    assert [line["out"] for line in lines] == [
        f"optimizer.lr={rate}/fl-3/seed-{seed}" for rate in ("0.05", "0.1") for seed in (0, 1)
    ]
    task = read_task(job.tasks, 3)
    assert (task.recipe.optimizer.lr, task.recipe.seed, task.recipe.loss) == (0.1, 1, "fl-3")
    assert task.path == tmp_path / "optimizer.lr=0.1/fl-3/seed-1"
    assert "array=0-3%3" in directives(job.script)


def test_resources_and_further_options(tmp_path):
    options = ["time=24:00:00", "--partition=gpu"]
    job = write_slurm_job(plans(tmp_path), tmp_path, cpus_per_run=4, gpus_per_run=2, options=options)
    assert {"cpus-per-task=4", "gpus-per-task=2", "time=24:00:00", "partition=gpu"} <= set(directives(job.script))
    with pytest.raises(ValueError, match=r"whole GPUs, and 0\.5 per run"):
        write_slurm_job(plans(tmp_path), tmp_path, gpus_per_run=0.5)


def test_the_script_trains_its_tasks(tmp_path):
    """Without SLURM, whose only part is to set the number."""
    (plan,) = plans(tmp_path)
    job = write_slurm_job([Plan(plan.recipe, plan.overrides, ("fl-3",), (0,), tmp_path)], tmp_path)
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "0"}
    done = subprocess.run(["bash", str(job.script)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fl-3/seed-0/evaluation.json").is_file()
    # The finished run is left out of the next job.
    again = write_slurm_job(plans(tmp_path), tmp_path)
    assert (again.waiting, "array=0,2-3" in directives(again.script)) == (3, True)


def test_a_script_is_valid_shell(tmp_path):
    out = tmp_path / "it's a folder"
    job = write_slurm_job(plans(out), out)
    assert subprocess.run(["bash", "-n", str(job.script)], check=False).returncode == 0


def test_submitting(tmp_path, monkeypatch):
    job = write_slurm_job(plans(tmp_path / "out"), tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="There is no sbatch on this machine"):
        job.submit()
    sbatch = tmp_path / "sbatch"
    sbatch.write_text('#!/bin/sh\necho "Submitted batch job 7 of $1"\n')
    sbatch.chmod(0o755)
    assert job.submit() == f"Submitted batch job 7 of {job.script}"
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: no such partition' >&2\nexit 1\n")
    with pytest.raises(ValueError, match=r"sbatch refused .*: sbatch: error: no such partition"):
        job.submit()


@pytest.mark.parametrize(
    ("content", "index", "sentence"),
    [
        (None, 0, "There is no file"),
        ("", 0, "has 0 tasks, counted from 0, and no task 0"),
        ("{}\n", 1, "has 1 tasks, counted from 0, and no task 1"),
        ("{}\n", -1, "no task -1"),
        ("{}\n", 0, "line 1, is not a task of a sweep"),
        ("[3]\n", 0, "line 1, is not a task of a sweep"),
        ('{"recipe": "digits/mlp", "changes": [], "out": 3}\n', 0, "recipe and out must be texts, and changes a list"),
        ('{"recipe": "digits/mlp", "changes": "a=1", "out": "x"}\n', 0, "recipe and out must be texts, and changes a"),
        ('{"recipe": null, "changes": [], "out": "x"}\n', 0, "recipe and out must be texts, and changes a list"),
        ('{"recipe": "digits/mlp", "changes": [1], "out": "x"}\n', 0, "recipe and out must be texts, and changes a"),
        ('{"recipe": "digits/mlp", "out": "x"}\n', 0, "it must have recipe, changes and out"),
        ('{"recipe": "digits/nothing", "changes": [], "out": "x"}\n', 0, "There is no recipe digits/nothing"),
    ],
)
def test_bad_files_of_tasks_are_one_sentence(tmp_path, content, index, sentence):
    file = Path(tmp_path, "tasks.jsonl")
    if content is not None:
        file.write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        read_task(file, index)
