"""Warnings about data: what was assumed or left out. Free of torch, so that the command line can show them."""


class PredictionsWarning(UserWarning):
    """Something about predictions that was assumed or left out."""
