"""Intervals of metrics of data that is seen once, in blocks, and not kept."""

import numpy as np
import torch

from focalcal.metrics.intervals import Replicates
from focalcal.metrics.resampling.counts import all_once, bootstrap_counts
from focalcal.metrics.resampling.grouped import GROUPS, STREAMED_METRICS, GroupedReplicates, deal
from focalcal.metrics.statistics import SampleStatistics


class StreamedBootstrap:
    """Deals samples into 512 groups as they come, keeps sums of each group (14 MB), and resamples the groups.

    For all of `STREAMED_METRICS`: everything that has intervals in `bootstrap`, but classwise-ECE and debiased ECE.
    Meant for some ten thousand samples and more: with fewer, keep the samples and use `bootstrap`.

    Args:
        bins: of the binned metrics.
        seed: of the dealing and of the resamples.

    Examples:
        >>> from focalcal.metrics.statistics import sample_statistics
        >>> from focalcal.predictions import Predictions
        >>> streamed = StreamedBootstrap()
        >>> for block in torch.linspace(0.05, 0.95, 40_000).split(10_000):
        ...     labels = torch.rand(10_000, generator=torch.Generator().manual_seed(0)) < block
        ...     streamed.add(sample_statistics(Predictions.from_probs(block, labels)))
        >>> low, high = streamed.replicates(1000).interval("error", "basic", level=0.9)
        >>> 1.5 < (high - low) / 2 / (0.275 * 0.725 / 40_000) ** 0.5 < 1.8  # 1.64 standard errors, expected
        True
    """

    def __init__(self, bins: int = 15, seed: int = 0) -> None:
        self._seed = seed
        self._generator = torch.Generator().manual_seed(seed)
        self._groups = GroupedReplicates(bins)

    def add(self, statistics: SampleStatistics) -> None:
        """Add a block of samples."""
        self._groups.add(statistics, deal(len(statistics), GROUPS, self._generator))

    def replicates(self, samples: int = 1000) -> Replicates:
        """Metrics on everything added, and on so many resamples."""
        every = np.ones(GROUPS, dtype=np.bool_)
        estimates = {name: float(value[0]) for name, value in self._groups.values(all_once(every)).items()}
        parts = [self._groups.values(counts) for counts in bootstrap_counts(every, samples, self._seed)]
        values = {name: np.concatenate([part[name] for part in parts]) for name in STREAMED_METRICS}
        return Replicates(estimates, values, {}, GROUPS)
