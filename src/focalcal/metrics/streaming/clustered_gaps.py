"""Sums of clusters of a stream, for the honest intervals of calibration errors.

Clusters are dealt as wholes into 512 groups by their number, and a group is a unit: with fewer clusters than groups, a
cluster is one. What is known of a group in a cell of confidence stands for one sample there, of the cell's mass.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from focalcal.metrics.binning import BinSums
from focalcal.metrics.bootstrap.groups import GroupReplicates
from focalcal.metrics.cluster_units import ClusterUnits, units_of_sums
from focalcal.metrics.confidence_cells import joined_middles
from focalcal.metrics.honest_intervals import RankedUnits
from focalcal.metrics.ranking import Column, Ranking

Array = npt.NDArray[np.float64]


class ClusteredGaps:
    """The data that honest intervals are made of.

    Args:
        groups: Sums of groups of clusters.
        bins: Number of bins.
    """

    def __init__(self, groups: GroupReplicates, bins: int) -> None:
        self._groups, self._bins = groups, bins

    @cached_property
    def table(self) -> BinSums:
        """See `GapSums`."""
        sums = self._groups.by_bin()
        return BinSums(*(part.sum(0) for part in (sums.count, sums.confidence, sums.correct)))

    @cached_property
    def binned(self) -> ClusterUnits:
        """See `GapSums`."""
        sums = self._groups.by_bin()
        mass = sums.count.numpy()
        return units_of_sums(mass, sums.confidence.numpy() / np.where(mass > 0, mass, 1), sums.gap.numpy())

    @cached_property
    def ranked(self) -> RankedUnits:
        """See `GapSums`."""
        mass, gap = (part.numpy() for part in self._groups.by_cell())
        held = mass.sum(0) > 0
        mass, gap, middles = mass[:, held], gap[:, held], joined_middles().numpy()[held]
        columns: dict[Column, Array] = {"mass": mass.sum(0), "gap": gap.sum(0)}
        ranking = Ranking(self._groups.samples, columns.__getitem__, self._bins)
        return RankedUnits(units_of_sums(mass, np.broadcast_to(middles, mass.shape), gap), middles, ranking)
