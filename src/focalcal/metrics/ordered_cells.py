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
        # Cell, mass, correct mass of each run; in each cell in order of arrival.
        self._runs = [torch.zeros(3, 0, dtype=torch.float64)]
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
        """Write down samples of heavy cells; ``before`` is the mass and correct mass of each one's cell without them."""
        limit = self._share * float(self._sums[0].sum())
        kept = (cell % 2 == 1) & ((self._sums[0, cell] > limit) | self._logged[cell])
        # A cell that was too light to be logged begins with one run of what it held.
        first_time = kept & ~self._logged[cell] & (before[0] > 0)
        begun, place = torch.unique(cell[first_time], return_inverse=True)
        held = torch.zeros(2, len(begun), dtype=torch.float64)
        held[:, place] = before[:, first_time]
        self._logged[cell[kept]] = True
        self._runs.append(torch.cat([begun.double()[None], held]))
        self._runs.append(_joined(torch.cat([cell.double()[None], terms])[:, kept], limit))
        if sum(runs.shape[1] for runs in self._runs) > 1.5 / self._share:
            self._runs = [_joined(torch.cat(self._runs, dim=1), limit)]

    def pieces(self) -> Pieces:
        """What is known, in order."""
        cells = torch.nonzero((self._sums[0] > 0) & ~self._logged)[:, 0]
        runs = torch.cat(self._runs, dim=1)
        of_run = runs[0].long()
        value = self._edges[of_run // 2]
        # Cell 2i lies between edges i − 1 and i, cell 2i + 1 is edge i.
        low, high = (self._edges[(place // 2).clamp(min=0)] for place in (cells - 1, cells))
        joined = [torch.cat([self._sums[row, cells], runs[row + 1]]) for row in (0, 1)]
        joined += [torch.cat([self._sums[2, cells], runs[1] * value])]
        joined += [torch.cat([low, value]), torch.cat([high, value])]
        order = torch.cat([cells, of_run]).argsort(stable=True)
        return Pieces(*(part[order] for part in joined))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as tensors."""
        runs = torch.cat(self._runs, dim=1)
        return {"edges": self._edges, "sums": self._sums.clone(), "runs": runs, "logged": self._logged.clone()}

    @classmethod
    def from_state_dict(cls, share: float, state: Mapping[str, Tensor]) -> "OrderedCells":
        """The cells that `state_dict` described."""
        cells = cls(share, state["edges"].clone())
        cells._sums, cells._logged = state["sums"].clone(), state["logged"].clone()
        cells._runs = [state["runs"].clone()]
        return cells


def _joined(runs: Tensor, limit: float) -> Tensor:
    """Sort by cell, keeping the order in each, and join neighbours into runs of about the limit, at most twice that."""
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
