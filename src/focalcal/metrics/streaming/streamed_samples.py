"""Streamed samples: everything that an accumulator remembers of them, which adds up over parts and processes."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from focalcal.base.measures import MEASURES, Of
from focalcal.metrics.arguments import scale_weights, weight_exponent
from focalcal.metrics.independent_units import FOLDS
from focalcal.metrics.samples import SampleStatistics, StatisticsStore, block_statistics
from focalcal.metrics.streaming.running_sums import RunningSums
from focalcal.metrics.streaming.sketch import COMPACT, ConfidenceSketch, Resolution
from focalcal.metrics.streaming.streamed_clusters import StreamedClusters, check_clusters, new_clusters
from focalcal.predictions import Predictions
from focalcal.predictions.masking import drop_masked


class StreamedSamples:
    """Sums and a sketch of all samples so far.

    Args:
        num_classes: K.
        bins: The number of bins of binned metrics.
        resolution: How much the sketch remembers.
        of: What calibration is measured of; None for what the first samples say.
        first_row: Number of the first row.

    Attributes:
        of: What calibration is measured of; None while that is not known.
        sums: The sums.
        sketch: The confidences.
        clusters: Sums of clusters, where samples depend on each other.
        next_sample: Number of samples (of any number of positions) so far, by which clusters without names go.
    """

    def __init__(self, num_classes: int, bins: int, resolution: Resolution, of: Of | None, first_row: int = 0) -> None:
        self.num_classes, self.bins, self._resolution = num_classes, bins, resolution
        self._wanted = self.of = of
        self.sums = RunningSums(num_classes, bins)
        self.sketch = ConfidenceSketch(bins, resolution)
        self.next_row = first_row
        self.clusters: StreamedClusters | None = None
        self.next_sample = first_row

    @property
    def in_clusters(self) -> bool | None:
        """True if samples depend on each other; None where there are none."""
        return None if self.sums.exponent is None else self.clusters is not None

    @property
    def measured(self) -> Of:
        """The measure of calibration; the predicted class as long as nothing was added."""
        return self.of or "top"

    @property
    def samples(self) -> int:
        """The number of samples of positive weight."""
        return self.sums.samples

    @property
    def compact(self) -> bool:
        """True if no sample is kept, for shards of very large data."""
        return self._resolution == COMPACT

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        of_clusters = 0 if self.clusters is None else self.clusters.nbytes
        return self.sums.counts.nbytes + self.sums.sums.nbytes + self.sketch.nbytes + of_clusters

    def add(self, preds: Predictions, rows: Tensor) -> SampleStatistics | None:
        """Add predictions whose rows have these numbers, (N,), in the whole data; returns their statistics, if any."""
        preds = drop_masked(preds)
        if preds.num_classes != self.num_classes:
            raise ValueError(f"The outputs have {preds.num_classes} classes, the accumulator has {self.num_classes}.")
        if self.of not in (None, preds.of):
            raise ValueError(
                f"These are predictions of {MEASURES[preds.of].title}, and those before of "
                f"{MEASURES[self.measured].title}; accumulate them apart."
            )
        if len(preds) == 0:
            return None
        check_clusters(self.in_clusters, preds.clusters is not None)
        self.of = preds.of
        store = StatisticsStore(len(preds))
        fold = rows % FOLDS
        start = 0
        for stats, probs in block_statistics(self._with_scaled_weights(preds)):
            self.sums.add_classes(stats, probs, fold[start : start + len(stats)])
            store.add(stats)
            start += len(stats)
        joined = store.join()
        self.sums.add(joined, fold)
        self.sketch.add(joined, fold)
        if preds.clusters is not None:
            self.clusters = self.clusters or StreamedClusters(self.bins)
            self.clusters.add(joined, preds.clusters)
        self.next_row = max(self.next_row, int(rows[-1]) + 1)
        return joined

    def _with_scaled_weights(self, preds: Predictions) -> Predictions:
        """Divide weights by the power of two that all sums are divided by, which grows if need be."""
        exponent = 0 if preds.weights is None else weight_exponent(preds.weights)
        self._rescale(max(exponent, exponent if self.sums.exponent is None else self.sums.exponent))
        if preds.weights is None and self.sums.exponent == 0:
            return preds
        weights = torch.ones(len(preds), dtype=torch.float64) if preds.weights is None else preds.weights
        return replace(preds, weights=scale_weights(weights, self.sums.exponent or 0))

    def _rescale(self, exponent: int) -> None:
        if self.sums.exponent not in (None, exponent):
            self.sketch.rescale(exponent - (self.sums.exponent or 0))
            if self.clusters is not None:
                self.clusters.rescale(2.0 ** ((self.sums.exponent or 0) - exponent))
        self.sums.rescale(exponent)

    def merge(self, other: "StreamedSamples") -> None:
        """Add everything that the other holds, which stays as it is; `check_same` says whether they go together."""
        if other.sums.exponent is None:
            return
        check_clusters(self.in_clusters, other.clusters is not None)
        self.of = other.of
        own = other.sums.exponent if self.sums.exponent is None else self.sums.exponent
        exponent = max(own, other.sums.exponent)
        other = copy.deepcopy(other) if other.sums.exponent < exponent else other
        for each in (self, other):
            each._rescale(exponent)
        self.sums.counts += other.sums.counts
        self.sums.sums += other.sums.sums
        self.sketch.merge(other.sketch)
        if other.clusters is not None:
            self.clusters = self.clusters or StreamedClusters(self.bins)
            self.clusters.merge(other.clusters)
        self.next_row, self.next_sample = (
            max(self.next_row, other.next_row),
            max(self.next_sample, other.next_sample),
        )

    def all_reduce(self, group: Any) -> None:
        """Join those of all processes, of which there are several."""
        import torch.distributed as dist

        device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
        exponent = -torch.inf if self.sums.exponent is None else self.sums.exponent
        clustered = self.in_clusters
        facts = [exponent, self.next_row, self.next_sample, clustered is True, clustered is False]
        largest = torch.tensor(facts, dtype=torch.float64, device=device)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        self.next_row, self.next_sample = int(largest[1]), int(largest[2])
        if largest[3] and largest[4]:
            check_clusters(True, False)
        if not largest[0].isinf():
            self._rescale(int(largest[0]))
        if largest[3]:
            self.clusters = self.clusters or StreamedClusters(self.bins)
            self.clusters.all_reduce(device, group)
        codes, sums, limits = self.sketch.to_flat(dist.get_rank(group), dist.get_world_size(group))
        counts = torch.cat([self.sums.counts, codes]).to(device)
        sums, limits = torch.cat([self.sums.sums, sums]).to(device), limits.to(device)
        dist.all_reduce(counts, group=group)
        dist.all_reduce(sums, group=group)
        dist.all_reduce(limits, dist.ReduceOp.MAX, group=group)
        counts, sums, limits = counts.cpu(), sums.cpu(), limits.cpu()
        own_counts, own_sums = len(self.sums.counts), len(self.sums.sums)
        self.sums.counts.copy_(counts[:own_counts])
        self.sums.sums.copy_(sums[:own_sums])
        sketch = (counts[own_counts:], sums[own_sums:], limits, self._resolution)
        self.sketch = ConfidenceSketch.from_flat(self.bins, self.samples, *sketch)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as tensors, of a size that does not depend on the number of samples beyond those kept."""
        state = {
            "shape": torch.tensor([self.num_classes, self.bins]),
            "counts": self.sums.counts.clone(),
            "sums": self.sums.sums.clone(),
            "next_row": torch.tensor([self.next_row, self.next_sample]),
        }
        if self.clusters is not None:
            state |= {f"clusters.{name}": part for name, part in self.clusters.state_dict().items()}
        state |= {f"sketch.{name}": part for name, part in self.sketch.state_dict().items()}
        if self.sums.exponent is not None:
            state["exponent"] = torch.tensor(self.sums.exponent)
        if self.compact:
            state["compact"] = torch.tensor(True)
        if self.of is not None:
            state["of"] = torch.tensor(list(MEASURES).index(self.of))
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the place of those that `state_dict` described."""
        num_classes, bins = (int(number) for number in state["shape"])
        of = list(MEASURES)[int(state["of"])] if "of" in state else "top"
        self.check_same(num_classes, bins, None if self._wanted is None else of, "compact" in state)
        self._check_sizes(state)
        sketch = {name.removeprefix("sketch."): part for name, part in state.items()}
        loaded = ConfidenceSketch.from_state_dict(self.bins, int(state["counts"][0]), sketch, self._resolution)
        self.clusters = new_clusters(self.bins, state)
        self.next_row, self.next_sample = (int(number) for number in state["next_row"])
        self.sums.counts.copy_(state["counts"])
        self.sums.sums.copy_(state["sums"])
        self.sums.exponent = int(state["exponent"]) if "exponent" in state else None
        self.sketch = loaded
        self.of = of if "of" in state or self.samples else self._wanted

    def _check_sizes(self, state: Mapping[str, Tensor]) -> None:
        for name in ("counts", "sums"):
            own = getattr(self.sums, name)
            if state[name].shape != own.shape or state[name].dtype != own.dtype:
                raise ValueError(f"The state's {name} are not those of such an accumulator; pass what state_dict gave.")

    def check_same(self, num_classes: int, bins: int, of: Of | None, compact: bool) -> None:
        """Refuse samples of another shape, form or measure."""
        if compact != self.compact:
            raise ValueError(
                "Only one of the two accumulators is compact, and only those of the same form go together."
            )
        if None not in (of, self.of) and of != self.of:
            raise ValueError("The other accumulator's calibration is measured of something else (of=).")
        if (num_classes, bins) != (self.num_classes, self.bins):
            raise ValueError(
                f"The other accumulator has {num_classes} classes and {bins} bins, this one {self.num_classes} and "
                f"{self.bins}; only those of the same shape go together."
            )
