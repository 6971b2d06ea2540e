"""SLURM: the runs of a sweep as the tasks of a job array."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from focalcal.base.files import atomic_writer, check_links, make_folder, parse_json, read_text
from focalcal.base.suggestions import shorten
from focalcal.recipes import Recipe, load_recipe
from focalcal.sweeps.plan import Plan, PlannedRun

TASKS, SCRIPT = "tasks.jsonl", "sweep.sbatch"
_LONGEST_NAME = 255  # bytes of the name of a folder


@dataclass(frozen=True)
class Task:
    """One line of a file of tasks: a recipe with its changes, and the run directory."""

    recipe: Recipe
    path: Path


@dataclass(frozen=True)
class SlurmJob:
    """A job array that is ready to be submitted.

    Attributes:
        script: The script.
        tasks: The file of tasks, one line per run.
        waiting: Number of runs that are not finished.
    """

    script: Path
    tasks: Path
    waiting: int

    def submit(self) -> str:
        """Call sbatch, and return what it says."""
        if shutil.which("sbatch") is None:
            raise ValueError(
                f"There is no sbatch on this machine; {self.script} is written: submit it where SLURM is, with "
                f"sbatch {self.script}."
            )
        asked = subprocess.run(["sbatch", str(self.script)], capture_output=True, text=True, check=False)
        if asked.returncode:
            raise ValueError(f"sbatch refused {self.script}: {' '.join(asked.stderr.split()) or 'no reason given'}.")
        return asked.stdout.strip()


def write_slurm_job(
    plans: Sequence[Plan],
    out: Path,
    *,
    cpus_per_run: int | None = None,
    gpus_per_run: float | None = None,
    jobs: int | None = None,
    options: Sequence[str] = (),
) -> SlurmJob:
    """Write ``tasks.jsonl``, one line per run, and ``sweep.sbatch``, a job array of those that are not finished.

    Args:
        plans: The plans of the sweep.
        out: Its folder, which all nodes share.
        cpus_per_run: Cores of each run; by default the recipe's ``hardware.threads``, else 1.
        gpus_per_run: Whole GPUs of each run; by default one if the recipe asks for CUDA.
        jobs: Runs at a time at most; None for as many as SLURM starts.
        options: Further options of sbatch, such as ``time=24:00:00`` and ``partition=gpu``.
    """
    if gpus_per_run is not None and gpus_per_run != int(gpus_per_run):
        raise ValueError(f"SLURM gives whole GPUs, and {gpus_per_run:g} per run were asked for.")
    runs = [(plan, run) for plan in plans for run in plan.runs()]
    waiting = [number for number, (_, run) in enumerate(runs) if not run.is_finished]
    if not waiting:
        raise ValueError(f"Every run of {out} is finished; --measure-only makes its tables.")
    needs = [runs[number][1].resources(cpus_per_run, gpus_per_run) for number in waiting]
    cpus, gpus = max(need[0] for need in needs), int(max(need[1] for need in needs))
    make_folder(out)
    check_links(out, below=False)
    tasks, script = out / TASKS, out / SCRIPT
    with atomic_writer(tasks) as file:
        file.write("".join(_line(plan, run, out) + "\n" for plan, run in runs).encode())
    array = _ranges(waiting) + (f"%{jobs}" if jobs else "")
    with atomic_writer(script) as file:
        file.write(_script(tasks.resolve(), array, cpus, gpus, options).encode())
    return SlurmJob(script, tasks, len(waiting))


def _line(plan: Plan, run: PlannedRun, out: Path) -> str:
    recipe = str(Path(plan.recipe).resolve()) if Path(plan.recipe).is_file() else plan.recipe
    changes = [*plan.overrides, f"loss={run.loss}", f"seed={run.seed}"]
    content = {"recipe": recipe, "changes": changes, "out": run.path.relative_to(out).as_posix()}
    return json.dumps(content, ensure_ascii=False)


def _ranges(numbers: Sequence[int]) -> str:
    """Write numbers as SLURM does.

    Examples:
        >>> _ranges([0, 1, 2, 5, 7, 8])
        '0-2,5,7-8'
    """

    def parts() -> Iterator[str]:
        for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            run = [number for _, number in group]
            yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"

    return ",".join(parts())


def _script(tasks: Path, array: str, cpus: int, gpus: int, options: Sequence[str]) -> str:
    """Write the script; without SLURM it runs the task that SLURM_ARRAY_TASK_ID names, too."""
    python, file = shlex.quote(sys.executable), shlex.quote(str(tasks))
    lines = [
        "#!/bin/bash",
        "# The runs of a focalcal sweep that are not finished, one task per run; a task that is started again resumes.",
        "#SBATCH --job-name=focalcal",
        f"#SBATCH --array={array}",
        f"#SBATCH --cpus-per-task={cpus}",
        *([f"#SBATCH --gpus-per-task={gpus}", "#SBATCH --ntasks=1"] if gpus else ["#SBATCH --ntasks=1"]),
        "#SBATCH --requeue",
        "# Two minutes before the time is over, or when a job is preempted, the run saves its state.",
        "#SBATCH --signal=TERM@120",
        "#SBATCH --open-mode=append",
        f"#SBATCH --output={shlex.quote(f'{tasks.parent}/slurm-%a.out')}",
        *(f"#SBATCH --{option.removeprefix('--')}" for option in options),
        "set -eu",
        f"export OMP_NUM_THREADS={cpus}",
        f'task=({python} -m focalcal train --task {file} --index "$SLURM_ARRAY_TASK_ID" --no-report)',
        'if command -v srun > /dev/null; then exec srun "${task[@]}"; fi',
        'exec "${task[@]}"',
    ]
    return "\n".join(lines) + "\n"


def read_task(file: Path, index: int) -> Task:
    """Read one task of ``tasks.jsonl``; tasks are counted from 0.

    Raises:
        ValueError: One sentence, if there is no such file or task, or its line is damaged.
    """
    lines = read_text(file).splitlines()
    if not 0 <= index < len(lines):
        raise ValueError(f"{file} has {len(lines)} tasks, counted from 0, and no task {index}.")
    try:
        recipe, changes, folder = _parse_task(lines[index])
        path = file.parent / folder
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(file.parent)):
            raise ValueError(f"{shorten(repr(folder))} is not a folder of the sweep, but a link out of it")
    except ValueError as error:
        where = f"{file}, line {index + 1}"
        raise ValueError(f"{where}, is not a task of a sweep ({error}); write the file again.") from error
    try:
        return Task(load_recipe(recipe, changes), path)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}, line {index + 1}: {error}") from error


def _parse_task(line: str) -> tuple[str, list[str], str]:
    """Return the recipe, its changes, and a folder below that of the sweep."""
    content = parse_json(line)
    if not isinstance(content, dict) or set(content) != {"recipe", "changes", "out"}:
        raise ValueError("it must have recipe, changes and out")
    recipe, changes, folder = content["recipe"], content["changes"], content["out"]
    if not isinstance(changes, list) or not all(isinstance(text, str) for text in (recipe, folder, *changes)):
        raise ValueError("recipe and out must be texts, and changes a list of texts")
    inside = PurePosixPath(folder)
    is_name = "\0" not in folder and all(len(os.fsencode(part)) <= _LONGEST_NAME for part in inside.parts)
    if inside.is_absolute() or ".." in inside.parts or not is_name:
        raise ValueError(f"{shorten(repr(folder))} is not a folder of the sweep")
    return recipe, changes, folder
