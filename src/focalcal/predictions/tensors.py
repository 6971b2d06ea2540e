"""Arrays of any kind as CPU tensors: numpy or torch, any numeric type, without a copy where that is possible."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def cpu_tensor(data: Any, name: str) -> Tensor:
    """Return ``data`` as a CPU tensor of its own type, without a copy where that is possible.

    Args:
        data: A tensor, an array, or anything ``numpy.asarray`` makes an array of.
        name: Name for errors.
    """
    if data is None:
        raise TypeError(f"The {name} are missing; pass an array or tensor of numbers.")
    if isinstance(data, Tensor):
        return data.detach().cpu()
    try:
        array = np.asarray(data)
    except ValueError:
        raise ValueError(f"The {name} are rows of different lengths; pass a rectangular array.") from None
    if array.dtype.name == "bfloat16":  # numpy has it only through the package ml_dtypes
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    if array.dtype.kind not in "fiub":
        raise TypeError(f"The {name} are of type {array.dtype}; pass an array or tensor of numbers.")
    return torch.from_numpy(_share_with_torch(array))


def float_tensor(data: Any, name: str) -> tuple[Tensor, torch.dtype]:
    """Return ``data`` as float32 or float64, and the type that it came in.

    float64 stays; everything narrower (float16, bfloat16, float8) is raised to float32.
    """
    tensor = cpu_tensor(data, name)
    if not tensor.is_floating_point():
        raise ValueError(f"The {name} are of type {_type_name(tensor)}; pass floating-point numbers.")
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor, tensor.dtype
    return tensor.float(), tensor.dtype


def integer_tensor(tensor: Tensor, name: str) -> Tensor:
    """Return a tensor of any integer type as int64."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"The {name} are of type {_type_name(tensor)}; pass integers, or a matrix (N, K) of shares.")
    as_int64 = tensor.to(torch.int64)
    if tensor.dtype == torch.uint64 and bool((as_int64 < 0).any()):
        raise ValueError(f"The {name} hold a number above 2^63, which is not a class.")
    return as_int64


def _share_with_torch(array: np.ndarray) -> np.ndarray:
    """Copy what torch cannot share memory with: a foreign byte order, long doubles, a read-only array."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return array


def _type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
