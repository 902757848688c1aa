from pathlib import Path

import pytest

from controlplane.simulator.worlds.presets import PresetError
from controlplane.testbed.nodes import fleet, manifest, of_openb


def test_a_fleet_is_spread_over_racks_and_zones() -> None:
    nodes = fleet(300)

    assert len({node.name for node in nodes}) == 300
    assert len({node.rack for node in nodes}) == 19
    assert {node.zone for node in nodes} == {"zone-0", "zone-1", "zone-2"}


def test_a_node_tells_its_lost_gpus_by_what_can_be_allocated() -> None:
    (node,) = fleet(1)
    lost = type(node)(**{name: getattr(node, name) for name in node.__slots__} | {"lost": (3, 4)})

    status = manifest(lost)["status"]

    assert (status["capacity"]["nvidia.com/gpu"], status["allocatable"]["nvidia.com/gpu"]) == ("8", "6")


def test_openb_has_each_machine_of_its_list(tmp_path: Path) -> None:
    (tmp_path / "openb").mkdir()
    rows = "sn,cpu_milli,memory_mib,gpu,model\nx,64000,262144,2,P100\ny,96000,393216,8,V100M32\n"
    (tmp_path / "openb" / "nodes_gpu.csv").write_text(rows)

    nodes, source = of_openb(tmp_path)
    x, y = (manifest(node) for node in nodes)

    assert source == "trace file nodes_gpu.csv"
    assert x["metadata"]["labels"]["nvidia.com/gpu.product"] == "P100"
    assert y["status"]["capacity"] == {"cpu": "96000m", "memory": "393216Mi", "pods": "256", "nvidia.com/gpu": "8"}


def test_openb_without_its_list_is_the_model_and_says_so(tmp_path: Path) -> None:
    nodes, source = of_openb(tmp_path)

    assert source == "model after Alibaba's openb"
    assert (len(nodes), sum(node.gpus for node in nodes)) == (1213, 6212)
    assert nodes == of_openb(tmp_path)[0]


def test_a_list_that_cannot_be_read_is_named_and_no_model_stands_in_for_it(tmp_path: Path) -> None:
    (tmp_path / "openb").mkdir()
    (tmp_path / "openb" / "nodes_gpu.csv").write_text("sn,gpu\nx,1\n")

    with pytest.raises(PresetError, match=r"nodes_gpu\.csv has no column cpu_milli"):
        of_openb(tmp_path)
