"""What every file format offers: a header, and the samples in raw blocks, one after another."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from focalcal.predictions.options import Choices, find_roles
from focalcal.predictions.rows import Kind

# Gives the next n samples of an array, as numpy or torch has them; only forwards.
Take = Callable[[int], Any]


@dataclass(frozen=True)
class Metadata:
    """What a file says about all of its samples."""

    split: str | None = None
    class_names: tuple[str, ...] | None = None
    provenance: dict[str, str] = field(default_factory=dict)
    tolerance: float | None = None  # of row sums, where the one that follows from the type is too small


@dataclass(frozen=True)
class RawBlock:
    """Some consecutive samples as they stand in the file; labels are None where they are kept elsewhere."""

    values: Any
    labels: Any
    weights: Any
    ids: Any


class StoredArray(ABC):
    """An array in a file, of which samples (entries of the first dimension) can be read in order."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(N, ...)."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Take]:
        """Start at the first sample."""

    def everything(self) -> Any:
        """Read all of it."""
        with self.reader() as take:
            return take(self.shape[0] if self.shape else 1)


class Source(ABC):
    """An opened file of predictions; each call of ``raw_blocks`` reads it anew from the start."""

    kind: Kind
    sample_shape: tuple[int, ...]  # of the values of one sample: (K,), (K, d1, ...), or () for one column
    metadata: Metadata
    has_ids: bool
    has_weights: bool

    @property
    @abstractmethod
    def num_samples(self) -> int:
        """Samples in the file."""

    @abstractmethod
    def raw_blocks(self, samples: int) -> Iterator[RawBlock]:
        """Give blocks of at most ``samples`` samples."""

    @abstractmethod
    def id_blocks(self) -> Iterator[Sequence[object]]:
        """Give the ids alone, in blocks."""


class ArraySource(Source):
    """A file of named arrays with one entry a sample."""

    def __init__(self, arrays: dict[str, StoredArray], metadata: Metadata, choices: Choices) -> None:
        roles = find_roles(arrays, choices)
        self.kind = roles.kind
        self.metadata = metadata
        self._arrays = {
            part: arrays[key]
            for part in ("values", "labels", "weights", "ids")
            if isinstance(key := getattr(roles, part), str)
        }
        self._num_samples, *sample_shape = self._arrays["values"].shape or (0,)
        self.sample_shape = tuple(sample_shape)
        self.has_weights, self.has_ids = "weights" in self._arrays, "ids" in self._arrays
        self._check_lengths()

    def _check_lengths(self) -> None:
        for part, array in self._arrays.items():
            if array.shape[:1] != (self._num_samples,):
                raise ValueError(f"its {part} have shape {array.shape}, but there are {self._num_samples} samples.")

    @property
    def num_samples(self) -> int:
        """Samples in the file."""
        return self._num_samples

    def raw_blocks(self, samples: int) -> Iterator[RawBlock]:
        """Give blocks of ``samples`` samples."""
        with ExitStack() as stack:
            takes = {part: stack.enter_context(array.reader()) for part, array in self._arrays.items()}
            for start in range(0, self._num_samples, samples):
                count = min(samples, self._num_samples - start)
                parts = {part: take(count) for part, take in takes.items()}
                yield RawBlock(*(parts.get(part) for part in ("values", "labels", "weights", "ids")))

    def id_blocks(self) -> Iterator[Sequence[object]]:
        """Give the ids alone, in blocks."""
        at_once = 2**16
        with self._arrays["ids"].reader() as take:
            for start in range(0, self._num_samples, at_once):
                yield take(min(at_once, self._num_samples - start))
