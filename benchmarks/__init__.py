"""Benchmarks: speed side by side in one run, as ratios to peers and floors. ``make bench`` prints the tables."""
