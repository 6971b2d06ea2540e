"""What ``focalcal doctor`` looks for in predictions: one file a kind of trouble, each a function that gives findings."""
