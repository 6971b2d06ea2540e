"""Pictures: one function prepares the data, another draws it on a matplotlib axis. Needs ``focalcal[plots]``."""

from focalcal.plots.gradient_factor import draw_gradient_factor, gradient_factor_curves

__all__ = ["draw_gradient_factor", "gradient_factor_curves"]
