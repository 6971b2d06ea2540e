"""Metrics of many replicates at once, from how often each sample occurs in each: bootstrap, jackknife, permutations."""

from focalcal.metrics.resampling.counts import Counts as Counts
from focalcal.metrics.resampling.resampler import RESAMPLED_METRICS as RESAMPLED_METRICS
from focalcal.metrics.resampling.resampler import Resampler as Resampler
