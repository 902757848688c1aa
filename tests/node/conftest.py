"""A node with real containers beside those that KWOK plays, one for all tests of this folder."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode.node import RealNode, real_node
from tests.node.product import GPUS, Product


@pytest.fixture(scope="package")
def node_server(kubernetes_server: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """A real node with GPUs that it only pretends to have; it needs root."""
    with real_node(kubernetes_server, tmp_path_factory.mktemp("node"), gpus=GPUS) as node:
        yield node


@pytest.fixture
def node(node_server: RealNode, kubernetes: TestCluster) -> RealNode:
    """That node, with no pods at the start of each test."""
    return node_server


@pytest.fixture
def product(node: RealNode, kubernetes: TestCluster, transactional_db: None) -> Iterator[Product]:
    """Weft's loops over that cluster."""
    with closing(Product(kubernetes)) as one:
        yield one
