"""Runs of samples that came one after another and fell into one cell: how many, and how many of them were right."""

import torch
from torch import Tensor

from focalcal.metrics.binning import sum_by_index

# Up to so many runs are kept before they are looked through.
_FEWEST_RUNS = 2**18


class ArrivalRuns:
    """A list of runs, (3, R) float64: cell, mass and correct mass; those of a cell in order of arrival.

    They stand in memory taken once for many: small tensors between large ones that come and go would leave pieces.

    Args:
        runs: what to begin with.
    """

    def __init__(self, runs: Tensor | None = None) -> None:
        self._length = 0
        self._memory = torch.empty(3, 0, dtype=torch.float64)
        self._most = _FEWEST_RUNS
        if runs is not None:
            self.add(runs)

    def __len__(self) -> int:
        return self._length

    @property
    def runs(self) -> Tensor:
        """All of them, (3, R)."""
        return self._memory[:, : self._length]

    @property
    def is_full(self) -> bool:
        """Whether it is time to `tidy`."""
        return self._length > self._most

    def add(self, runs: Tensor) -> None:
        """Append runs (3, R) that came later than all others of their cells."""
        length = self._length + runs.shape[1]
        if length > self._memory.shape[1]:
            enlarged = torch.empty(3, max(length, 3 * self._length // 2), dtype=torch.float64)
            enlarged[:, : self._length] = self.runs
            self._memory = enlarged
        self._memory[:, self._length : length] = runs
        self._length = length

    def of_cells(self, cells: Tensor) -> Tensor:
        """The runs of some cells, (3, R)."""
        return self.runs[:, torch.isin(self.runs[0].long(), cells)]

    def tidy(self, wanted: Tensor, limit: float) -> None:
        """Keep the runs of wanted cells, (cells,) bool, and join neighbours to about the limit."""
        runs = joined_runs(self.runs[:, wanted[self.runs[0].long()]], limit)
        self._length = 0
        self.add(runs)
        self._most = max(_FEWEST_RUNS, 3 * self._length // 2)


def joined_runs(runs: Tensor, limit: float) -> Tensor:
    """Sort by cell, keeping the order in each, and join neighbours into runs of about the limit, at most twice that.

    Args:
        runs: (3, R) float64, of which none has more than the limit of mass, unless it is a single sample.
        limit: positive.

    Examples:
        >>> runs = torch.tensor([[7.0, 2.0, 7.0, 7.0], [1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]).double()
        >>> joined_runs(runs, limit=2.0).tolist()
        [[2.0, 7.0, 7.0], [1.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    """
    if runs.shape[1] == 0:
        return runs
    runs = runs[:, runs[0].argsort(stable=True)]
    before = runs[1].cumsum(0) - runs[1]
    first = torch.cat([torch.ones(1, dtype=torch.bool), runs[0].diff() > 0])
    start = before[first][first.cumsum(0) - 1]
    block = ((before - start) / limit).floor_()
    begins = first | torch.cat([first[:1], block.diff() != 0])
    run = begins.cumsum(0) - 1
    sums = [sum_by_index(run, int(run[-1]) + 1, part) for part in runs[1:]]
    return torch.stack([runs[0][begins], *sums])
