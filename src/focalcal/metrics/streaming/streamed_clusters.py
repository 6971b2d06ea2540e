"""Sums of clusters of streamed samples: samples of one image, sentence or user depend on each other.

Clusters are dealt as wholes into 512 groups by their number, which are independent of each other; with fewer clusters,
numbered one after another, a group is a cluster. Sums of parts of the data add up.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from focalcal.metrics.binning import BinSums
from focalcal.metrics.bootstrap.counts import bootstrap_counts, count_once
from focalcal.metrics.bootstrap.intervals import Replicates
from focalcal.metrics.bootstrap.replicates import Resampler
from focalcal.metrics.bootstrap.sample_groups import GROUPS, GroupReplicates
from focalcal.metrics.cluster_units import ClusterUnits, units_of_sums
from focalcal.metrics.clusters import note_on_clusters
from focalcal.metrics.confidence_cells import joined_middles
from focalcal.metrics.honest_intervals import RankedUnits
from focalcal.metrics.mean_intervals import MeanIntervals
from focalcal.metrics.ranking import Column, Ranking
from focalcal.metrics.samples import SampleStatistics

Array = npt.NDArray[np.float64]


class ClusteredGaps:
    """The data that honest intervals of calibration errors are made of: a unit is a group of clusters.

    What is known of a group in a cell of confidence stands for one sample there, of the cell's mass.

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


class StreamedClusters:
    """Sums of 512 groups of clusters, in 14 MB.

    Args:
        bins: Number of bins of the binned metrics.
    """

    def __init__(self, bins: int) -> None:
        self._bins = bins
        self._sums = GroupReplicates(bins)

    def add(self, statistics: SampleStatistics, clusters: Tensor) -> None:
        """Add samples of the clusters (N,)."""
        self._sums.add(statistics, clusters % GROUPS)

    @property
    def count(self) -> int:
        """The number of groups that have samples: of clusters, as long as they are few."""
        return int(self._used.sum())

    @property
    def note(self) -> str:
        """Say what intervals are those of."""
        said = note_on_clusters(self.count)
        return said if self.count < GROUPS else said.replace("clusters.", "groups of clusters.")

    @property
    def nbytes(self) -> int:
        """Memory that they take, in bytes."""
        return sum(part.nbytes for part in self._sums.tensors)

    @property
    def _used(self) -> npt.NDArray[np.bool_]:
        return self._sums.used.numpy()

    def rescale(self, factor: float) -> None:
        """Multiply the weights of all samples so far."""
        self._sums.rescale(factor)

    def merge(self, other: "StreamedClusters") -> None:
        """Add the sums of another part of the data."""
        for own, theirs in zip(self._sums.tensors, other._sums.tensors, strict=True):
            own += theirs

    def all_reduce(self, device: str, group: Any) -> None:
        """Add the sums of all processes."""
        import torch.distributed as dist

        for part in self._sums.tensors:
            moved = part.to(device)
            dist.all_reduce(moved, group=group)
            part.copy_(moved.cpu())

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as tensors."""
        return {str(number): part.clone() for number, part in enumerate(self._sums.tensors)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the place of the sums that `state_dict` described."""
        for number, part in enumerate(self._sums.tensors):
            given = state[str(number)]
            if given.shape != part.shape or given.dtype != part.dtype:
                raise ValueError("The state's clusters are of another form; pass what Accumulator.state_dict gave.")
            part.copy_(given)

    def gaps(self) -> ClusteredGaps:
        """Return what honest intervals are made of, with groups of clusters for units."""
        return ClusteredGaps(self._sums, self._bins)

    def mean_intervals(self) -> MeanIntervals:
        """Return the intervals of means."""
        terms = self._sums.terms()
        return MeanIntervals(self._sums.means(), (terms.T @ terms).numpy(), clusters=self.count)

    def replicates(self, names: Sequence[str], samples: int, seed: int) -> Replicates:
        """Compute metrics on everything added, and on this number of resamples of clusters."""
        every = self._used
        resampler = Resampler(names, [self._sums])
        estimates = {name: float(value[0]) for name, value in resampler.values(count_once(every)).items()}
        drawn = resampler.values_of_blocks(bootstrap_counts(every, samples, seed))
        return Replicates(estimates, drawn, {}, self.count)


def new_clusters(bins: int, state: Mapping[str, Tensor]) -> StreamedClusters | None:
    """Make those that a state describes, as ``clusters.…``; None where it has none."""
    own = {name.removeprefix("clusters."): part for name, part in state.items() if name.startswith("clusters.")}
    if not own:
        return None
    made = StreamedClusters(bins)
    made.load_state_dict(own)
    return made


def check_clusters(before: bool | None, now: bool) -> None:
    """Refuse samples of which some say to which cluster they belong, and others do not.

    Args:
        before: Whether samples so far are in clusters; None where there are none.
        now: Whether those to come are.
    """
    if before is not None and before != now:
        raise ValueError(
            "Some of these samples say to which cluster (image, sentence, user) they belong, and others do not; pass "
            "clusters= with all of them, or with none."
        )
