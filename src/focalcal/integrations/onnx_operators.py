"""Operators that ONNX lacks or rounds away, for the exporter: searchsorted, expm1 and log1p.

The exporter writes exp(x) − 1 and log(1 + x), which are 0 below 1e-16 (1e-7 in float32), where calibrators of very
confident predictions need every digit.
"""

from typing import Any

import torch

from focalcal.base.optional import import_optional


def translations() -> dict[Any, Any]:
    """Make the exporter's table: an operator of torch, and a function that writes it with operators of ONNX."""
    op = import_optional("onnxscript", extra="onnx", what="ONNX files").opset18

    def like(number: float, x: Any) -> Any:
        return op.CastLike(op.Constant(value_float=number), x)

    def log1p(x: Any) -> Any:
        """Kahan's formula: what 1 + x lost by rounding is made up for by the factor x / ((1 + x) − 1)."""
        one = like(1.0, x)
        u = op.Add(one, x)
        kept = op.Sub(u, one)
        is_nothing = op.Equal(kept, like(0.0, x))
        exact = op.Mul(op.Log(u), op.Div(x, op.Where(is_nothing, one, kept)))
        return op.Where(is_nothing, x, op.Where(op.Equal(u, x), op.Log(u), exact))

    def expm1(x: Any) -> Any:
        """Kahan's formula near 0, and exp(x) − 1 elsewhere."""
        one = like(1.0, x)
        u = op.Exp(x)
        plain = op.Sub(u, one)
        is_one = op.Equal(u, one)
        exact = op.Mul(plain, op.Div(x, op.Where(is_one, one, op.Log(u))))
        near = op.Where(is_one, x, exact)
        return op.Where(op.Greater(op.Abs(x), like(0.5, x)), plain, near)

    def searchsorted(
        thresholds: Any, values: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
    ) -> Any:
        """Count the thresholds (K, M) below each value (K, N) of their row."""
        below = op.Less(
            op.Unsqueeze(thresholds, op.Constant(value_ints=[1])), op.Unsqueeze(values, op.Constant(value_ints=[2]))
        )
        counted = op.Cast(below, to=7)  # int64
        return op.ReduceSum(counted, op.Constant(value_ints=[2]), keepdims=0)

    aten = torch.ops.aten
    return {
        aten.log1p.default: log1p,
        aten.expm1.default: expm1,
        aten.searchsorted.Tensor: searchsorted,
    }
