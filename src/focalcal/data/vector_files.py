"""Where the word vectors of the text data sets are found."""

from pathlib import Path

from focalcal.data.catalogue import GLOVE
from focalcal.data.folders import data_folders
from focalcal.data.glove import find_vectors


def obtained_vectors(given: Path | str | None, root: Path | None, dimension: int) -> Path:
    """The file of word vectors: the given one, else one in the folder ``glove`` of a data folder, else a download.

    Raises:
        ValueError: it is nowhere; one sentence that says where to put it.
    """
    if given is not None:
        return find_vectors(Path(given).expanduser(), dimension)
    for folder in data_folders(root):
        if (folder / "glove").is_dir():
            return find_vectors(folder / "glove", dimension)
    return GLOVE.obtained(root)
