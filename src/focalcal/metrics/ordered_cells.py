"""The order of samples, as far as one process that has seen them all can know it in memory that does not grow.

The cells of the fine grid are cut further at every confidence among the first samples, and each of these confidences
has a cell of its own. So cells stay light where confidences crowd, and many samples of one and the same confidence
share a cell that holds nothing else. Where a cut of AdaECE falls among such ties their order of arrival decides: for
cells with more than a small share of all samples a log keeps runs in order of arrival. Runs grow with the data, so that
their number does not.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from focalcal.metrics.arrival_runs import ArrivalRuns, joined_runs
from focalcal.metrics.binning import sum_by_index
from focalcal.metrics.confidence_cells import cell_limits
from focalcal.metrics.equal_mass_range import Pieces
from focalcal.metrics.statistics import ConfidenceSamples


class OrderedCells:
    """Mass, correctness and confidence by cell, and runs of ties in order of arrival.

    Args:
        share: the part of the total mass that a run may have before the next one begins.
        edges: (E,) float64, ascending; cells 1, 3, 5, … hold exactly these values, cells 0, 2, 4, … what lies between.
    """

    def __init__(self, share: float, edges: Tensor) -> None:
        self._share = share
        self._edges = edges
        self._sums = torch.zeros(3, 2 * len(edges) + 1, dtype=torch.float64)
        self._runs = ArrivalRuns()
        self._logged = torch.zeros(self._sums.shape[1], dtype=torch.bool)

    @classmethod
    def around(cls, confidence: Tensor, share: float) -> "OrderedCells":
        """Cells for data of which these (N,) float64 values are the first."""
        low, high = cell_limits()
        return cls(share, torch.unique(torch.cat([confidence, low, high[-1:]])))

    def add(self, samples: ConfidenceSamples) -> None:
        """Add samples in order of arrival."""
        weight = torch.ones_like(samples.confidence) if samples.weight is None else samples.weight
        terms = torch.stack([weight, weight * samples.correct, weight * samples.confidence])
        at = torch.searchsorted(self._edges, samples.confidence)
        cell = at * 2 + (self._edges[at] == samples.confidence)
        before = self._sums[:2, cell]
        self._sums.index_add_(1, cell, terms)
        self._log(cell, terms[:2], before)

    def _log(self, cell: Tensor, terms: Tensor, before: Tensor) -> None:
        """Write down samples of heavy cells; ``before``: mass and correct mass of each one's cell without them."""
        limit = self._share * float(self._sums[0].sum())
        kept = (cell % 2 == 1) & ((self._sums[0, cell] > limit) | self._logged[cell])
        # A cell that was too light to be logged begins with one run of what it held.
        first_time = kept & ~self._logged[cell] & (before[0] > 0)
        begun, place = torch.unique(cell[first_time], return_inverse=True)
        held = torch.zeros(2, len(begun), dtype=torch.float64)
        held[:, place] = before[:, first_time]
        self._logged[cell[kept]] = True
        self._runs.add(torch.cat([begun.double()[None], held]))
        self._runs.add(joined_runs(torch.cat([cell.double()[None], terms])[:, kept], limit))
        if self._runs.is_full:
            # The data have grown: short runs can be joined, and some cells are no longer heavy.
            self._logged &= self._sums[0] > limit
            self._runs.tidy(self._logged, limit)

    @property
    def mass(self) -> Tensor:
        """The total number of samples, or their weight: a float64 scalar."""
        return self._sums[0].sum()

    def pieces(self, cuts: Tensor) -> Pieces:
        """What is known, in order: runs, or a cell, where there is a cut, and everything from one to the next together.

        Args:
            cuts: (M + 1,) positions on the axis of cumulated mass, from 0 to the total.
        """
        cumulated = self._sums[0].cumsum(0)
        cut_cells = torch.unique(torch.searchsorted(cumulated, cuts[1:-1]).clamp(max=len(cumulated) - 1))
        group = _groups_around(cut_cells, len(cumulated))
        at = group[cut_cells]
        number = int(group[-1]) + 1
        joined = torch.stack([sum_by_index(group, number, row) for row in self._sums])
        low, high = torch.zeros(number, dtype=torch.float64), torch.ones(number, dtype=torch.float64)
        # Cell 2i lies between edges i − 1 and i, cell 2i + 1 is edge i.
        low[at], high[at] = (self._edges[(cell // 2).clamp(min=0)] for cell in (cut_cells - 1, cut_cells))
        cells = torch.cat([joined, low[None], high[None]])
        in_runs = self._logged[cut_cells]
        cells[0, at[in_runs]] = 0
        runs, order = self._runs_of(cut_cells[in_runs])
        held = torch.nonzero(cells[0] > 0)[:, 0]
        everything = torch.cat([cells[:, held], runs], dim=1)
        place = torch.cat([held, group[order]]).argsort(stable=True)
        return Pieces(*everything[:, place])

    def _runs_of(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """The runs of some cells as (5, R), the rows of `Pieces`, by arrival in each cell; and their cells (R,)."""
        chosen = self._runs.of_cells(cells)
        cell = chosen[0].long()
        value = self._edges[cell // 2]
        return torch.stack([chosen[1], chosen[2], chosen[1] * value, value, value]), cell

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as tensors."""
        runs, logged = self._runs.runs.clone(), self._logged.clone()
        return {"edges": self._edges, "sums": self._sums.clone(), "runs": runs, "logged": logged}

    @classmethod
    def from_state_dict(cls, share: float, state: Mapping[str, Tensor]) -> "OrderedCells":
        """The cells that `state_dict` described."""
        cells = cls(share, state["edges"].clone())
        cells._sums, cells._logged = state["sums"].clone(), state["logged"].clone()
        cells._runs = ArrivalRuns(state["runs"])
        return cells


def _groups_around(cells: Tensor, number: int) -> Tensor:
    """(number,) int64: consecutive groups of cells, in which each of the given (ascending) cells is alone."""
    begins = torch.zeros(number + 1, dtype=torch.int64)
    begins[cells] = 1
    begins[cells + 1] = 1
    begins[0] = 0
    return begins[:-1].cumsum(0)
