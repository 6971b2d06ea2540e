"""Speed, measured side by side in one run: ratios to peers and to floors. ``make bench`` prints the tables."""
