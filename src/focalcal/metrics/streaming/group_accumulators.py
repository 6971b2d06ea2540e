"""Groups of streamed data: a compact accumulator for every group, in memory that is bounded."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from focalcal.metrics.evaluation import EvaluationRequest
from focalcal.metrics.group_moments import GroupMoments
from focalcal.metrics.group_results import GroupResult, GroupTable
from focalcal.metrics.grouping import calibration_p_value, choose_evaluated, group_notes, make_tests
from focalcal.metrics.sums import names_from
from focalcal.predictions import Predictions
from focalcal.predictions.groups import GroupColumn, ordered_names

if TYPE_CHECKING:
    from focalcal.metrics.streaming.accumulator import Accumulator

# All groups of all columns together take no more bytes than this.
MOST_BYTES = 2**30
_IN_CLUSTERS = (
    "Samples of one image, sentence or user depend on each other, which is not known of data that is not kept: groups "
    "are neither tested nor given intervals; evaluate what can be read whole."
)


class GroupAccumulators:
    """One accumulator per group of each column.

    Args:
        columns: Names of the columns.
        new: Makes an empty accumulator.

    Attributes:
        states: The accumulators by column and group.
    """

    def __init__(self, columns: Sequence[str], new: Callable[[], "Accumulator"]) -> None:
        self.new = new
        self.states: dict[str, dict[str, Accumulator]] = {column: {} for column in columns}

    def add(self, preds: Predictions, rows: Tensor) -> None:
        """Add predictions whose rows have these numbers, (N,), in the whole data."""
        plain = replace(preds, groups={}, ids=None, clusters=None)
        for column, states in self.states.items():
            for name, part in _parts(preds.groups[column]):
                self._state(states, name).add_rows(plain.select(part), rows[part])
            self._check_memory(column)

    def merge(self, other: "GroupAccumulators") -> None:
        """Add the groups of another part of the data."""
        for column, states in self.states.items():
            for name, theirs in other.states[column].items():
                self._state(states, name).merge(theirs)
            self._check_memory(column)

    def _state(self, states: dict[str, "Accumulator"], name: str) -> "Accumulator":
        if name not in states:
            states[name] = self.new()
        return states[name]

    def _check_memory(self, column: str) -> None:
        if sum(one.nbytes for states in self.states.values() for one in states.values()) > MOST_BYTES:
            raise ValueError(
                f"The {len(self.states[column]):,} groups of column {column!r} take more than a gigabyte of sums; "
                "group by a column of fewer groups, or evaluate a part of the data that can be read whole."
            )

    def tables(self, request: EvaluationRequest, in_clusters: bool = False) -> dict[str, GroupTable]:
        """Evaluate all groups, by column.

        Args:
            request: What is wanted.
            in_clusters: Whether samples depend on each other, so that there are neither tests nor intervals.
        """
        return {column: _table(column, states, request, in_clusters) for column, states in self.states.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as tensors; the names as the bytes of JSON."""
        names = json.dumps({column: list(states) for column, states in self.states.items()})
        state = {"names": torch.from_numpy(np.frombuffer(names.encode(), dtype=np.uint8).copy())}
        for number, states in enumerate(self.states.values()):
            for place, one in enumerate(states.values()):
                state |= {f"{number}.{place}.{key}": part for key, part in one.state_dict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the place of what `state_dict` described, of the same columns."""
        names = json.loads(state["names"].numpy().tobytes())
        if list(names) != list(self.states):
            raise ValueError(
                f"The state has groups of {', '.join(names) or 'no column'}, this accumulator of "
                f"{', '.join(self.states) or 'no column'}."
            )
        parts: dict[str, dict[str, Tensor]] = {}
        for key, part in state.items():
            if key != "names":
                first, second, rest = key.split(".", 2)
                parts.setdefault(f"{first}.{second}", {})[rest] = part
        for number, (column, groups) in enumerate(names.items()):
            self.states[column] = {}
            for place, name in enumerate(groups):
                self._state(self.states[column], name).load_state_dict(parts[f"{number}.{place}"])


def gather_states(state: Mapping[str, Tensor], group: Any = None) -> Iterator[dict[str, Tensor]]:
    """Exchange tensors between all processes of ``torch.distributed``, as bytes of safetensors: yields each one's."""
    import safetensors.torch
    import torch.distributed as dist

    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    content = torch.frombuffer(bytearray(safetensors.torch.save(dict(state))), dtype=torch.uint8).to(device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(sizes, torch.tensor([len(content)], device=device), group=group)
    padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=device)
    padded[: len(content)] = content
    received = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(received, padded, group=group)
    for part, size in zip(received, sizes, strict=True):
        yield safetensors.torch.load(part[: int(size)].cpu().numpy().tobytes())


def _parts(column: GroupColumn) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the rows of each group that has any."""
    order = torch.argsort(column.codes, stable=True)
    counts = torch.bincount(column.codes, minlength=len(column.names)).tolist()
    for name, part in zip(column.names, torch.split(order, counts), strict=True):
        if len(part):
            yield name, part


def _table(
    column: str, states: Mapping[str, "Accumulator"], request: EvaluationRequest, in_clusters: bool
) -> GroupTable:
    names = [name for name in ordered_names(states) if states[name].samples]
    found = [states[name] for name in names]
    moments = GroupMoments.of_means([(one.samples, one.means(), one.mean_products()) for one in found])
    p_values = [calibration_p_value(one.binned_units(), request.bins, request.seed, len(found)) for one in found]
    gap, error = moments.gap_contrast(), moments.error_contrast()
    if in_clusters:
        p_values = [math.nan] * len(found)
        gap, error = (replace(one, p_value=np.full(len(found), np.nan)) for one in (gap, error))
    tests = make_tests(gap, error, p_values)
    sizes = [one.samples for one in found]
    chosen, simple = choose_evaluated(tests, sizes), names_from(request.names, ["means", "bins"])
    results = {}
    for number, (name, one) in enumerate(zip(names, found, strict=True)):
        wanted = request.names if number in chosen else simple
        possible = [metric for metric in wanted if metric in one.possible_metrics()]
        evaluation = one.compute_total(
            possible,
            intervals=request.intervals and number in chosen and not in_clusters,
            level=request.level,
            seed=request.seed,
        )
        results[name] = GroupResult(
            name,
            replace(evaluation, notes=(), calibration_test=None if in_clusters else evaluation.calibration_test),
            *tests[number],
        )
    notes = group_notes(len(found), len(chosen), sizes)
    return GroupTable(column, results, (*notes, _IN_CLUSTERS) if in_clusters else notes)
