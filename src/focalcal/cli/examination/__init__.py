"""What ``focalcal doctor`` looks for in predictions: one file a kind of trouble, with functions that give findings."""
