"""A real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed")


def pytest_collection_modifyitems(items):
    """Let `make test-all` run what needs the cluster: its six processes take minutes beside other tests."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "cluster" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def cluster():
    """Return a cluster of two nodes with two CPUs each; the first one stays for all tests."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    own = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    own.add_node(num_cpus=2)
    own.wait_for_nodes()
    yield own
    ray.shutdown()
    own.shutdown()


@pytest.fixture
def executor(cluster):
    """Return the executor on that cluster, with both nodes alive."""
    from slipstream.scale.ray_executor import RayExecutor

    while len(cluster.worker_nodes) < 1:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
    found = RayExecutor(cluster.address)
    yield found
    found.close()


class _Holder:
    """Takes CPUs, and does nothing with them."""

    def ready(self) -> bool:
        return True


@pytest.fixture
def single_cpu(executor):
    """Leave one CPU of the cluster to others, so that whatever runs on it runs in order."""
    held = [ray.remote(num_cpus=cpus)(_Holder).remote() for cpus in (2, 1)]
    ray.get([one.ready.remote() for one in held])
    yield
    for one in held:
        ray.kill(one)
