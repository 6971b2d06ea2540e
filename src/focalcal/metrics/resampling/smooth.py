"""Smooth ECE of every replicate, from its residuals on a grid."""

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from focalcal.metrics.resampling.counts import Counts, column_slices, counted_sums, rows_in_chunk
from focalcal.metrics.smooth import _CUBIC_WEIGHTS, smooth_ece_of_grids
from focalcal.metrics.statistics import SampleStatistics

Array = npt.NDArray[np.float64]

# The grid's error grows as 1/smECE²: at 2^10 cells it is below 1% of a value of 0.005. Values fall as samples grow.
_CELLS, _CELLS_OF_MANY = 2**10, 2**12
_MANY_SAMPLES = 2**15


class SmoothReplicates:
    """Smooth ECE from counts, on a grid coarser than that of `focalcal.metrics.smooth_ece`.

    Args:
        statistics: of N samples.
        cells: how many steps the grid has; by default as many as this number of samples needs.
    """

    names = ("smooth_ece",)

    def __init__(self, statistics: SampleStatistics, cells: int | None = None) -> None:
        self._grid = residuals_on_grid(statistics, cells or _cells_for(len(statistics)))
        weight = torch.ones_like(statistics.confidence) if statistics.weight is None else statistics.weight
        size = (statistics.confidence - statistics.correct.double()).abs()
        self._total_and_size = torch.stack([weight, weight * size], dim=1)

    def values(self, counts: Counts) -> dict[str, Array]:
        """``{"smooth_ece": (B,)}`` for counts (N, B)."""
        sums = counted_sums(counts, torch.split(self._total_and_size, rows_in_chunk(counts.shape[1])))
        parts = [self._smooth_ece(counts[:, part], sums[part]) for part in column_slices(counts)]
        return {"smooth_ece": np.concatenate(parts)}

    def _smooth_ece(self, counts: Counts, sums: Tensor) -> Array:
        grids = np.ascontiguousarray((self._grid @ counts.astype(np.float64)).T)
        return smooth_ece_of_grids(torch.from_numpy(grids), sums[:, 0], sums[:, 1])[0].numpy()


def _cells_for(n: int) -> int:
    return _CELLS if n <= _MANY_SAMPLES else _CELLS_OF_MANY


def residuals_on_grid(statistics: SampleStatistics, cells: int) -> csr_array:
    """Sparse (cells + 1, N): how each sample's residual is spread over the nodes; its row sums are `residual_grid`."""
    residual = statistics.correct.numpy() - statistics.confidence.numpy()
    if statistics.weight is not None:
        residual = residual * statistics.weight.numpy()
    return spread_on_grid(statistics.confidence.numpy(), residual, cells)


def spread_on_grid(confidence: Array, values: Array, cells: int) -> csr_array:
    """Sparse (cells + 1, N): each value on the four nodes around its confidence, by cubic interpolation."""
    place = confidence * cells
    cell = np.minimum(place.astype(np.int64), cells - 1)
    spread = np.asarray(_CUBIC_WEIGHTS) @ (place - cell) ** np.arange(4)[:, None] * values
    node = np.abs(cell + np.arange(-1, 3)[:, None])
    node = np.where(node > cells, 2 * cells - node, node)  # beyond the ends stand mirror images
    sample = np.broadcast_to(np.arange(len(cell)), node.shape)
    return csr_array((spread.ravel(), (node.ravel(), sample.ravel())), shape=(cells + 1, len(cell)))
