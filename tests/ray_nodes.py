"""A Ray cluster of two nodes on this machine, for the tests that need one."""

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

# Before Ray is imported: it reports nothing, and warns of nothing that is to come.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
# A node that is killed is given up within seconds.
os.environ.update(
    {f"RAY_health_check_{name}": value for name, value in (("period_ms", "500"), ("failure_threshold", "3"))}
)

_MEMORY = 80 * 2**20


@contextmanager
def two_nodes():
    """Start a head without cores and one node with one, and connect to them; all of it ends with the block."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        with mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parent)):  # workers find `full_disk`
            cluster.add_node(num_cpus=0, include_dashboard=False, object_store_memory=_MEMORY)
            add_node(cluster)
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_node(cluster):
    return cluster.add_node(num_cpus=1, object_store_memory=_MEMORY)


def kill_node(cluster, node):
    """Kill a node as a power cut would."""
    cluster.remove_node(node, allow_graceful=False)


def full_disk(**_):
    """Fails as a data set does that is kept on a disk that is full: ``data=ray_nodes:full_disk``."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "kept.bin")
