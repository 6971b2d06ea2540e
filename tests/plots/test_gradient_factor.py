import numpy as np
import pytest

import focalcal as fc
from focalcal.plots import draw_gradient_factor, gradient_factor_curves


def test_curves_are_the_gradient_factor():
    curves = gradient_factor_curves((0.5, 3.0), points=11)
    assert curves.g.shape == (2, 11)
    assert curves.g[1, 2] == pytest.approx(fc.gradient_factor(0.2, 3.0))
    assert (curves.g[:, 0] == 1).all()


def test_drawing_shows_every_curve_with_labelled_axes(tmp_path):
    ax = draw_gradient_factor(gradient_factor_curves((1.0, 5.0)))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["γ = 1", "γ = 5"]
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), gradient_factor_curves((5.0,)).g[0])
    ax.figure.savefig(tmp_path / "g.svg")
    assert (tmp_path / "g.svg").stat().st_size > 1000


def test_draws_on_the_axis_that_it_is_given():
    first = draw_gradient_factor(gradient_factor_curves((1.0,)))
    assert draw_gradient_factor(gradient_factor_curves((2.0,)), ax=first) is first
