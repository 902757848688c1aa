"""Our own back-end on a real node: a kubelet gives a share its slot, and the program in the container is held to it.

The driver is the one that we wrote for the tests, and each container has a GPU of its own making: memory, token,
sockets and processes are real. The daemon has production's account and no other rights. Its name has these tests run
last on their node: from then on all shares there are held, also those of images in which the library cannot be loaded.
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from controlplane.cluster.kubernetes import names
from controlplane.enforcer import build, inside, residents, shares
from controlplane.manifests import enforcer
from controlplane.manifests.site import ENFORCER
from controlplane.models import Node, Workload
from controlplane.services.workloads import workloads
from controlplane.testbed.fakecuda import device
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.realnode import images, programs
from controlplane.testbed.realnode.node import MODEL, PATH, RealNode
from controlplane.testbed.realnode.settings import NAME
from gpushare.gpu import Share
from tests.enforcer.drivers import PROGRAM
from tests.node.product import NAMESPACE, Product

IMAGE = "driver"
FOLDER = "/opt/driver"
MIB = 1024
LIBRARY = f"{inside.PROGRAMS}/{build.LIBRARY}"
CELL = f"""cd /tmp; export LD_LIBRARY_PATH={FOLDER} FAKECUDA_DEVICE=/tmp/gpu FAKECUDA_MEMORY=17179869184 WAY=linked
{FOLDER}/client reach {MIB + 1}; trap 'exit 0' TERM; sleep 600 & wait"""


@pytest.fixture
def enforcing(product: Product, node: RealNode, kubernetes: TestCluster, tmp_path: Path) -> Path:
    """The node's folder of shares, once it offers slots."""
    registry = node.place.folder / "registry"
    if not (registry / "v2" / IMAGE).exists():
        build.build(node.enforcer_library)
        made = device.build(tmp_path)
        layers = [images.shell(programs.find("busybox")), images.python(programs.find_python()), packed(made)]
        images.image(registry, IMAGE, layers, ("/bin/sh",))
        tool(node)
        kubernetes.apply(enforcer.rights())
        node.enforces(kubernetes.kubeconfig(f"{enforcer.NAMESPACE}/{ENFORCER}"))
    kubernetes.wait_for(lambda: offered(kubernetes) == "256", "the slots")
    product.until(lambda: Node.objects.get(name=NAME).enforcer == "weft", "what the node says of itself")
    return node.shares


def tool(node: RealNode) -> None:
    """The driver's tool, of which it looks whether it can move memory: a program that stands for it."""
    told = node.place.folder / "told"
    told.mkdir()
    (told / "VERSION").write_text("580")
    node.enforcer_tools.mkdir()
    made = node.enforcer_tools / "cuda-checkpoint"
    first = f"GPU-{NAME}-0"
    made.write_text(f'#!/bin/sh\nFAKE_DRIVER={told} FAKE_GPU={first} exec {PROGRAM} "$@"\n')
    made.chmod(0o755)


def packed(made: device.Built) -> bytes:
    """The driver and the program as a layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in (device.DRIVER, made.client.name):
            images.add(tar, f"{FOLDER[1:]}/{name}", (made.folder / name).read_bytes(), mode=0o755)
    return out.getvalue()


def offered(kubernetes: TestCluster) -> str:
    found: str = kubernetes.request("GET", PATH)["status"]["allocatable"].get(inside.RESOURCE, "0")
    return found


def submitted(product: Product, name: str, image: str, script: str = CELL) -> Workload:
    share = {"guarantee": 0.25, "limit": 0.5, "memory": f"{MIB}Mi"}
    resources = {"gpu_share": share, "gpu_model": [MODEL], "cpu": "50m", "memory": "64Mi"}
    return product.submit(
        name, script, image=f"registry.example/{image}:1", resources=resources, checkpoint={"grace": "1s"}
    )


def served(folder: Path) -> dict[str, shares.Placed]:
    """By pod, what the node serves."""
    found = [shares.read(path) for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return {one.pod: one for one in found if one is not None}


def test_a_container_is_held_to_its_share_and_leaves_nothing(
    product: Product, enforcing: Path, kubernetes: TestCluster
) -> None:
    work = submitted(product, "held", IMAGE)
    product.until_phase(work, "Running")
    product.until(lambda: bool(product.log(work)), "what its program printed")

    assert product.log(work) == [f"launch 0 free {MIB} total {MIB} device {MIB} alloc 2"]
    name = f"{work.pk}-1-0"
    placed = served(enforcing)[name]
    assert placed.share == Share(250, 500, MIB)
    assert placed.gpu.startswith(f"GPU-{NAME}-")
    limits = kubernetes.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")["spec"]["containers"][0]
    assert limits["resources"]["limits"][inside.RESOURCE] == "1"

    product.cluster.limit(str(work.pk), 1, [0], 800)
    kubernetes.wait_for(lambda: served(enforcing)[name].share.limit == 800, "the new limit")

    workloads.stop(workload=work, actor="alice")
    product.until(lambda: name not in served(enforcing), "the end of its folder")
    assert served(enforcing) == {}


@pytest.fixture
def on_demand(product: Product, enforcing: Path, kubernetes: TestCluster) -> Iterator[Path]:
    """The same node for notebooks on demand, by its label, and as it was afterwards."""
    kubernetes.patch(PATH, {"metadata": {"labels": {"weft.dev/shares-enforced": "on-demand"}}})
    product.until(lambda: Node.objects.get(name=NAME).enforcer == "on-demand", "what the node says of itself")
    yield enforcing
    kubernetes.patch(PATH, {"metadata": {"labels": {"weft.dev/shares-enforced": None}}})


def cell_of(product: Product, name: str) -> Workload:
    """A notebook on demand whose cell begins at once and goes on; two have not room on one GPU."""
    share = {"guarantee": 0.25, "limit": 1.0, "memory": "9Gi"}
    resources = {"gpu_share": share, "gpu_model": [MODEL], "cpu": "50m", "memory": "64Mi"}
    script = CELL.replace(f"reach {MIB + 1}", "work 1000 5 100 600")
    image = f"registry.example/{IMAGE}:1"
    return product.submit(name, script, kind="notebook", on_demand=True, image=image, resources=resources)


def test_a_notebook_whose_gpu_has_no_room_computes_on_the_other_one(
    product: Product, on_demand: Path, node: RealNode, kubernetes: TestCluster
) -> None:
    first, second = (cell_of(product, name) for name in ("one", "two"))
    for work in (first, second):
        product.until_phase(work, "Running")
    pods = [kubernetes.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{w.pk}-1-0") for w in (first, second)]
    (shown,) = {one["metadata"]["annotations"][names.DEVICE] for one in pods}
    _, other = shown.split(",")  # both begin on the first of the two
    assert sorted(shown.split(",")) == [f"GPU-{NAME}-{number}" for number in range(2)]
    assert {one["spec"]["containers"][0]["resources"]["limits"]["memory"] for one in pods} == {f"{9 * 1024 + 64}Mi"}
    placed = served(on_demand)
    assert {one.on_demand for one in placed.values()} == {True}
    machine = residents.read(on_demand)
    assert machine is not None
    assert machine.gpus == {f"GPU-{NAME}-{number}": 16 * 1024 for number in range(2)}

    def places() -> set[str]:
        lines = urlopen(node.counters, timeout=10).read().decode().splitlines()  # noqa: S310 - the node's own
        return {line.split()[1] for line in lines if line.startswith("weft_gpu_share_on_gpu{")}

    product.until(lambda: places() == {"0", "1"}, "a GPU for each")
    moved = [shares.moved(path) for path in on_demand.iterdir() if path.is_dir()]
    assert [gpu for one in moved for gpu in one.values()] == [other], "one was moved, and one was not"
    for work in (first, second):
        workloads.stop(workload=work, actor="alice")
    product.until(lambda: served(on_demand) == {}, "the end of their folders")
    product.until(lambda: product.cluster.held() == frozenset(), "the end of the placeholders")


def test_an_image_in_which_the_library_cannot_be_loaded_does_not_start(product: Product, enforcing: Path) -> None:
    work = submitted(product, "without-glibc", "shell", "echo started; sleep 600")
    product.until_phase(work, "Failed")
    assert work.exit_code == 125
    assert work.message.startswith(f"Worker 0 on {NAME} ended: NotHeld, exit code 125 (weft: not started: {LIBRARY} ")
    assert "(this image has no glibc)" in work.message
    assert product.log(work) == []
    product.until(lambda: served(enforcing) == {}, "the end of its folder")
