"""Check of the files of a data set: everything is read and counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from focalcal.base.files import read_bytes
from focalcal.data.data_files import MissingDataError, hash_file
from focalcal.data.data_sets import Entry, find_entry, load_data


@dataclass(frozen=True)
class Checked:
    """Result of a check.

    Attributes:
        name: Name of the data set.
        classes: Number of classes.
        sizes: Number of samples by split.
        split_sha256: Fingerprint of the ids of each split.
        files: SHA-256 of each file that was read, by its place.
        notes: Differences from the published set, in sentences.
    """

    name: str
    classes: int
    sizes: dict[str, int]
    split_sha256: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def check_data(name: str, *, root: Path | None = None) -> Checked:
    """Read a data set whole, without downloading anything.

    Raises:
        MissingDataError: A file is not there.
        ValueError: A file is damaged; the message names it.

    Examples:
        >>> check_data("digits").sizes
        {'train': 1078, 'val': 269, 'test': 450}
    """
    entry = find_entry(name)
    if not entry.files and not entry.bundled:
        raise MissingDataError(
            f"{name} is a file of your own, which is checked when it is read: there is none to check."
        )
    hashes = {str(path): _verify(path) for path in _paths(entry, root)}
    facts, classes = _facts(entry, root)
    return Checked(name, classes, facts["sizes"], facts["split_sha256"], hashes, _notes(facts))


def _notes(facts: Mapping[str, Any]) -> list[str]:
    return [*facts.get("notes", []), *([facts["coverage"]] if "coverage" in facts else [])]


def _paths(entry: Entry, root: Path | None) -> list[Path]:
    present = entry.present(root)
    if entry.made_from and any(place is None for _, place in present):
        present = [(file, file.locate(root)) for file in entry.made_from]
    for file, place in present:
        if place is None:
            raise MissingDataError(file.request(root, f"was not fetched yet ('focalcal data fetch {entry.name}')"))
    return [place for _, place in present if place is not None]


def _verify(path: Path) -> str:
    """Compute the SHA-256 of a file, and compare it with that of its download if that was written down."""
    digest = hash_file(path)
    record = path.with_name(path.name + ".sha256")
    if record.is_file() and read_bytes(record).decode(errors="replace").split()[:1] != [digest]:
        raise ValueError(f"{path} has changed since it was downloaded: remove it and fetch it again.")
    return digest


def _facts(entry: Entry, root: Path | None) -> tuple[dict[str, Any], int]:
    if entry.trainable:
        data = load_data(entry.name, root=root)
        return dict(data.facts), int(data.model_options["num_classes"])
    from focalcal.data.ood_images import read_ood
    from focalcal.data.splits import hash_split

    images, about = read_ood(entry.name, root, None)
    notes = [about["note"]] if "note" in about else []
    facts = {"sizes": {"test": len(images.ids)}, "split_sha256": {"test": hash_split(images.ids)}, "notes": notes}
    return facts, int(entry.classes)
