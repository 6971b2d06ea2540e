"""Resampling: intervals by the bootstrap, comparisons by permutation. Replicates get their values as the data do."""
