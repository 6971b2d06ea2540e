"""Parallel text: two files of lines (plain or gz), or a parquet file with a column of translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from focalcal.base.files import read_bytes, regular_file
from focalcal.base.suggestions import shorten
from focalcal.data.data_files import BROKEN_ARCHIVE, LARGEST_UNPACKED, read_gzip
from focalcal.data.parquet_columns import BROKEN_PARQUET, read_columns

_COLUMN = "translation"


@dataclass(frozen=True)
class ParallelText:
    """N sentences and their translations.

    Attributes:
        source: N sentences.
        target: The same in the other language.
    """

    source: list[str]
    target: list[str]

    def __len__(self) -> int:
        return len(self.source)

    def without_empty(self) -> tuple["ParallelText", list[int]]:
        """Leave out the pairs of which a side has no text, and say where the others were.

        Examples:
            >>> ParallelText(["a", " ", "c"], ["x", "y", "z"]).without_empty()
            (ParallelText(source=['a', 'c'], target=['x', 'z']), [0, 2])
        """
        kept = [i for i in range(len(self)) if self.source[i].strip() and self.target[i].strip()]
        return ParallelText([self.source[i] for i in kept], [self.target[i] for i in kept]), kept


def read_parallel(paths: Sequence[Path], languages: tuple[str, str] = ("en", "de")) -> ParallelText:
    """Read sentence pairs.

    Args:
        paths: Two files of lines in UTF-8, plain or .gz, the source first; or parquet files with a column
            ``translation`` that holds a text per language, as those of the Hugging Face hub do.
        languages: Languages of the source and of the target, as a parquet file calls them.

    Raises:
        ValueError: One sentence on which file is missing, damaged or does not fit the other.
    """
    for path in paths:
        if not path.is_file():
            raise ValueError(f"There is no file {path}; name a file of sentences.")
    if all(path.suffix.lower() == ".parquet" for path in paths) and paths:
        parts = [_read_parquet(path, languages) for path in paths]
        return ParallelText([s for part in parts for s in part.source], [t for part in parts for t in part.target])
    if len(paths) != 2:
        raise ValueError(f"Parallel text is two files of lines or a parquet file, and {len(paths)} were given.")
    source, target = (read_lines(path) for path in paths)
    return pair_lines(source, target, (paths[0].name, paths[1].name))


def pair_lines(source: list[str], target: list[str], names: tuple[str, str]) -> ParallelText:
    """Pair the lines of two files; refuse files of different line counts, and files without a line.

    Args:
        source: Lines of the first.
        target: Lines of the second.
        names: Names of both files, for messages.
    """
    if len(source) != len(target):
        raise ValueError(
            f"{names[0]} has {len(source):,} lines and {names[1]} {len(target):,}: line by line they must be "
            "translations of each other."
        )
    if not source:
        raise ValueError(f"{names[0]} and {names[1]} have no lines; give sentences.")
    return ParallelText(source, target)


def read_lines(path: Path) -> list[str]:
    r"""Read the lines of a UTF-8 file, plain or .gz; only a line feed ends one, whatever else Unicode may offer.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "a.en")
        ...     _ = file.write_bytes("one\u2028line\r\nanother\n".encode())
        ...     read_lines(file)
        ['one\u2028line', 'another']
    """
    try:
        content = read_gzip(path) if path.suffix.lower() == ".gz" else read_bytes(path, LARGEST_UNPACKED)
    except BROKEN_ARCHIVE as error:
        raise ValueError(f"{path} cannot be read ({shorten(str(error))}); fetch or save it again.") from None
    return split_lines(content, path.name)


def split_lines(content: bytes, name: str) -> list[str]:
    """Split UTF-8 text into its lines, without a byte order mark.

    Args:
        content: The text.
        name: Its name in messages.
    """
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {line} is not UTF-8 ({error.reason}); save the file as UTF-8.") from None
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _read_parquet(path: Path, languages: tuple[str, str]) -> ParallelText:
    try:
        schema = pyarrow.parquet.read_schema(regular_file(path))
        kind = schema.field(_COLUMN).type if _COLUMN in schema.names else None
        if kind is None or not pa.types.is_struct(kind):
            raise ValueError(f"{path.name} has no column {_COLUMN!r} that holds a text per language.")
        present = [kind.field(number).name for number in range(kind.num_fields)]
        for language in languages:
            if language not in present:
                raise ValueError(f"{path.name} has no language {language!r}; it has {', '.join(present)}.")
        column = read_columns(path, [_COLUMN]).column(0).combine_chunks()
        source, target = ([text or "" for text in column.field(name).to_pylist()] for name in languages)
    except BROKEN_PARQUET as error:
        raise ValueError(f"{path.name} cannot be read ({' '.join(str(error).split())}); fetch it again.") from None
    return ParallelText(source, target)
