"""The connection to a Ray cluster, or one of this machine's cores where no cluster is named."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from focalcal.base.optional import import_optional

_SECONDS_TO_ANSWER = 5.0


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[Any]:
    """Connect to Ray, give its module, and disconnect again; a connection that the caller has stays as it is.

    Args:
        address: ``auto`` for the cluster that this machine belongs to, ``HOST:PORT``, or ``ray://HOST:PORT``. None:
            the one that RAY_ADDRESS names, else a cluster of this machine alone, which ends with the connection.

    Raises:
        ImportError: Ray is not installed.
        ValueError: There is no cluster at the address, or none can be started here.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or None
    options: dict[str, Any] = {"address": address}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody asked for reports about their use of it
        options = {"address": "local", "include_dashboard": False}
    else:
        _check_listening(address)
    try:
        ray.init(**options, logging_level="ERROR", log_to_driver=False)
    except Exception as error:  # Ray has no exception of its own for a node that does not come up in time
        reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")
        if address is None:
            raise ValueError(f"Ray cannot be started on this machine: {reason}; it may be too busy.") from error
        raise ValueError(f"There is no Ray cluster at {address}: {reason}; {_ADVICE}.") from error
    try:
        yield ray
    finally:
        ray.shutdown()


_ADVICE = "start one with `ray start --head`, or leave the address out to use this machine"


def import_ray() -> Any:
    """Import Ray, which is an extra."""
    # Ray would warn, on every import, of what a coming version does for tasks that ask for no GPU.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return import_optional("ray", extra="ray", what="Clusters")


def _check_listening(address: str) -> None:
    """Find out in seconds what Ray would wait for minutes for."""
    if address in ("auto", "local"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"{address!r} is not the address of a cluster; write auto, HOST:PORT or ray://HOST:PORT.")
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise ValueError(f"There is no Ray cluster at {address}: {error.strerror or error}; {_ADVICE}.") from error
