"""Options of commands that read shards: where, how many at a time, and what becomes of those that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from focalcal.metrics.streaming.workers import Engine

_PANEL = "Shards"


@dataclass(frozen=True)
class ShardOptions:
    """The options, as they were given: a command takes them by `pack_fields`."""

    on: Annotated[
        str, typer.Option(help="local or ray: where shards are read, side by side.", rich_help_panel=_PANEL)
    ] = "local"
    workers: Annotated[
        int | None, typer.Option(min=1, help="Shards at a time; by default one per core.", rich_help_panel=_PANEL)
    ] = None
    address: Annotated[
        str | None,
        typer.Option(help="Address of the Ray cluster: auto, HOST:PORT or ray://HOST:PORT.", rich_help_panel=_PANEL),
    ] = None
    skip_bad_shards: Annotated[
        bool, typer.Option("--skip-bad-shards", help="Leave out shards that cannot be read.", rich_help_panel=_PANEL)
    ] = False

    def check(self, others: Mapping[str, object]) -> None:
        """Refuse options that shards have no use for."""
        for option, given in others.items():
            if given:
                raise ValueError(f"{option} does not work on shards; leave it out, or pass one file.")

    @property
    def engine(self) -> Engine:
        """Place where shards are read."""
        if self.on not in ("local", "ray"):
            raise ValueError(f"--on must be local or ray, not {self.on!r}.")
        if self.address is not None and self.on != "ray":
            raise ValueError(f"--address belongs to --on ray, and this is --on {self.on}.")
        return cast("Engine", self.on)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `focalcal.evaluate_shards`."""
        return {**vars(self), "on": self.engine}


def are_shards(paths: Sequence[str], options: ShardOptions) -> bool:
    """Return whether paths are shards: several, a pattern, or anything that options of shards were given with."""
    from focalcal.predictions.shards import is_pattern

    return len(paths) > 1 or is_pattern(paths[0]) or options != ShardOptions()
