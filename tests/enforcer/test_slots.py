"""The slots of a node: whose folder is mounted where, from the kubelet's word to the end of the pod."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.cluster.kubernetes import names
from controlplane.enforcer import inside, shares
from controlplane.enforcer.kubelet import api, messages, plugin, pods
from controlplane.enforcer.kubelet.plugin import Node, Plugin
from controlplane.enforcer.kubelet.slots import Slots
from controlplane.enforcer.residents import Machine
from controlplane.enforcer.shares import Placed
from gpushare.gpu import Share
from tests.servers import wait_until


def share(pod: str, limit: int = 500) -> Placed:
    return Placed("GPU-1", Share(250, limit, 4096), pod=pod)


def folders(slots: Slots) -> dict[str, str]:
    """The pod of each folder that there is."""
    found = {path.name: shares.read(path) for path in slots.root.iterdir()}
    return {name: placed.pod if placed else "" for name, placed in sorted(found.items())}


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path / "shares", 4, itertools.count(1).__next__)


def test_a_folder_is_there_before_it_is_known_whose_it_is(slots: Slots) -> None:
    mounted = slots.mounted("share-2")
    assert mounted == slots.root / "share-2-1" / "container"
    assert list(mounted.iterdir()) == []
    assert slots.mounted("share-2") == mounted  # the pod's first container, then its main one
    assert slots.follow({"share-2": None}) is False
    assert slots.follow({"share-2": share("a")}) is True
    assert folders(slots) == {"share-2-1": "a"}


def test_a_changed_limit_is_followed_and_a_pod_that_is_gone_leaves_nothing(slots: Slots) -> None:
    slots.mounted("share-0")
    slots.follow({"share-0": share("a")})
    slots.follow({"share-0": share("a", 900)})
    found = shares.read(slots.root / "share-0-1")
    assert found is not None
    assert found.share.limit == 900
    slots.follow({"share-0": None})  # the API server is silent: what is known stays
    assert folders(slots) == {"share-0-1": "a"}
    assert slots.follow({}) is True
    assert folders(slots) == {}


def test_the_next_pod_with_a_slot_gets_a_folder_of_its_own(slots: Slots) -> None:
    first = slots.mounted("share-1")
    slots.follow({"share-1": share("a")})
    second = slots.mounted("share-1")
    assert second != first
    assert second == slots.root / "share-1-2" / "container"
    slots.follow({"share-1": share("b")})
    assert folders(slots) == {"share-1-2": "b"}


def test_a_folder_that_a_pod_had_is_never_given_to_another(slots: Slots) -> None:
    slots.mounted("share-1")
    slots.follow({"share-1": share("a")})
    slots.follow({"share-1": share("b")})  # the kubelet has not asked for it
    assert folders(slots) == {"share-1-1": "a"}


def test_a_restart_forgets_nothing_and_leaves_alone_what_is_not_its_own(slots: Slots) -> None:
    slots.mounted("share-1")
    slots.follow({"share-1": share("a")})
    slots.mounted("share-3")
    by_hand = slots.root / "chat-0"
    shares.write(by_hand, share("chat"))
    again = Slots(slots.root, 4)
    assert again.mounted("share-3") == slots.root / "share-3-2" / "container"
    again.follow({"share-1": share("a"), "share-3": share("c")})
    again.follow({})
    assert folders(slots) == {"chat-0": "chat"}


@pytest.mark.parametrize("name", ["share-4", "share--1", "gpu-0", "../share-0", ""])
def test_only_slots_of_the_node_are_given(slots: Slots, name: str) -> None:
    with pytest.raises(ValueError, match="no slot"):
        slots.mounted(name)


EVENTS = ("comes", "goes", "look", "restart")
Event = tuple[str, int]  # what happens, and to which slot


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(st.tuples(st.sampled_from(("comes", "goes", "look", "restart")), st.integers(0, 2)), max_size=40)
)
def test_whatever_happens_no_folder_is_of_two_pods_and_none_stays(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    clock = itertools.count(1).__next__
    slots = Slots(tmp_path_factory.mktemp("slots") / "shares", 3, clock)
    held: dict[str, Placed | None] = {}
    mounted: dict[str, Path] = {}
    ever: dict[Path, str] = {}  # whose each folder was
    for count, (event, number) in enumerate(events):
        name = f"share-{number}"
        if event == "comes" and name not in held:
            mounted[name] = slots.mounted(name)
            held[name] = share(f"pod-{count}")
        elif event == "goes":
            held.pop(name, None)
        elif event == "restart":
            slots = Slots(slots.root, 3, clock)
        else:
            slots.follow(held)
            for slot, one in held.items():
                found = shares.read(mounted[slot].parent)
                assert found == one
                assert one is not None
                assert ever.setdefault(mounted[slot], one.pod) == one.pod
    slots.follow({})
    left = [path for path in slots.root.iterdir() if shares.read(path) is not None] if slots.root.is_dir() else []
    assert left == []


# --- the kubelet's side ---------------------------------------------------------------------------


@contextmanager
def kubelet(folder: Path) -> Iterator[list[bytes]]:
    """What a kubelet hears of its plugins; the real one is in tests/node."""
    heard: list[bytes] = []

    def register(asked: bytes, _: Any) -> bytes:
        heard.append(asked)
        return b""

    methods = {"Register": grpc.unary_unary_rpc_method_handler(register)}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration", methods),))
    server.add_insecure_port(f"unix://{folder / api.PLUGINS / api.KUBELET}")
    server.start()
    yield heard
    server.stop(None).wait()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    (tmp_path / "kubelet" / api.PLUGINS).mkdir(parents=True)
    return Node(tmp_path / "kubelet", tmp_path / "library")


@pytest.fixture
def offered(node: Node, slots: Slots) -> Iterator[Plugin]:
    made = Plugin(node, slots)
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(made.run)
        yield made
        made.close()
        ran.result()


def asked_for(node: Node, *slots: str) -> bytes:
    request = messages.encode([(1, [(1, slot) for slot in slots])])
    return api.call(node.socket(), "/v1beta1.DevicePlugin/Allocate", request)


def test_it_waits_for_the_kubelet_and_comes_back_when_that_starts_again(node: Node, offered: Plugin) -> None:
    for _ in range(2):
        node.socket().unlink(missing_ok=True)  # as a kubelet does that starts
        with kubelet(node.kubelet) as heard:
            wait_until(partial(bool, heard), "the registration")
            assert [messages.texts(heard[0], field) for field in (1, 2, 3)] == [
                ["v1beta1"],
                [plugin.SOCKETS[inside.RESOURCE]],
                [inside.RESOURCE],
            ]
            (node.kubelet / api.PLUGINS / api.KUBELET).unlink(missing_ok=True)


def test_a_container_gets_its_folder_the_library_and_the_variables(node: Node, slots: Slots, offered: Plugin) -> None:
    with kubelet(node.kubelet) as heard:
        wait_until(lambda: bool(heard), "the registration")
        (answer,) = messages.fields(asked_for(node, "share-3"), 1)
        variables = {messages.texts(one, 1)[0]: messages.texts(one, 2)[0] for one in messages.fields(answer, 1)}
        mounts = [
            (messages.texts(one, 1)[0], messages.texts(one, 2)[0], messages.number(one, 3))
            for one in messages.fields(answer, 2)
        ]
    assert variables == {
        "WEFT_GPU_ENFORCER": "/run/weft/gpu",
        "WEFT_GPU_ENFORCER_PATIENCE": "30",
        "LD_PRELOAD": "/opt/weft/enforcer/libweft-gpu.so",
    }
    assert mounts == [
        ("/run/weft/gpu", str(slots.root / "share-3-1" / "container"), 0),
        ("/opt/weft/enforcer", str(node.library), 1),
    ]


@pytest.mark.parametrize("slots_asked", [("share-0", "share-1"), ("share-9",), ()])
def test_a_container_that_asks_for_anything_else_is_refused(
    node: Node, offered: Plugin, slots_asked: tuple[str, ...]
) -> None:
    with kubelet(node.kubelet) as heard:
        wait_until(lambda: bool(heard), "the registration")
        with pytest.raises(grpc.RpcError, match="a container has one slot"):
            asked_for(node, *slots_asked)


def test_the_kubelets_list_says_which_pod_has_which_slot() -> None:
    def pod(name: str, *given: tuple[str, str]) -> tuple[int, messages.Value]:
        devices: list[tuple[int, messages.Value]] = [(2, [(1, what), (2, which)]) for what, which in given]
        return (1, [(1, name), (2, "weft-nlp"), (3, [(1, "main"), *devices])])

    answer = messages.encode(
        [
            pod("a", (inside.RESOURCE, "share-3")),
            pod("b", ("nvidia.com/gpu", "GPU-1")),
            pod("c", (inside.RESOURCE, "share-0")),
        ]
    )
    assert api.owners(answer, inside.RESOURCE) == {
        "share-3": ("weft-nlp", "a", "main"),
        "share-0": ("weft-nlp", "c", "main"),
    }


# --- what the API server says of a pod ------------------------------------------------------------


def told(**notes: str) -> dict[str, Any]:
    known = {"milli": "250", "limit": "500", "gpu-memory": "4096", "device": "GPU-1"} | notes
    annotations = {f"internal.weft.dev/{key.replace('_', '-')}": value for key, value in known.items() if value}
    return {"metadata": {"name": "a", "namespace": "weft-nlp", "annotations": annotations}}


def test_a_share_is_what_the_pods_annotations_say() -> None:
    assert pods.placed(told()) == share("a")
    harvests = pods.placed(told(milli="0", limit="1000"))
    assert harvests is not None
    assert (harvests.share.guarantee, harvests.share.limit) == (1, 1000)


@pytest.mark.parametrize(
    "notes", [{"device": ""}, {"milli": ""}, {"limit": "x"}, {"gpu_memory": "-1"}, {"limit": "100"}]
)
def test_a_pod_that_says_nothing_or_nonsense_has_no_share_here(notes: dict[str, str]) -> None:
    assert pods.placed(told(**notes)) is None


def bound(name: str, gpus: str, called: str, **notes: str) -> dict[str, Any]:
    """A notebook on demand as the API server has it."""
    said = {names.MILLI: "200", names.LIMIT: "1000", names.GPU_MEMORY: "4096", names.ON_DEMAND: "81920"}
    return {
        "metadata": {"namespace": "weft-nlp", "name": name, "resourceVersion": "1",
                     "annotations": said | {names.GPUS: gpus, names.DEVICE: called} | notes},
    }  # fmt: skip


def test_a_notebook_on_demand_begins_on_the_first_of_its_gpus_and_its_node_is_told_all() -> None:
    found = pods.placed(bound("n", "2,0", "GPU-c,GPU-a"))
    assert found == Placed("GPU-c", Share(200, 1000, 4096), on_demand=True, pod="n")
    machine = pods.machine_of(bound("n", "2,0", "GPU-c,GPU-a"))
    assert machine == Machine({"GPU-c": 81920, "GPU-a": 81920}, 0, {"GPU-c": 2, "GPU-a": 0})
    for wrong in (
        bound("n", "2", "GPU-c,GPU-a"),
        bound("n", "", ""),
        bound("n", "0", "GPU-a", **{names.ON_DEMAND: "?"}),
    ):
        assert pods.machine_of(wrong) is None
    assert pods.machine_of({"metadata": {"name": "plain"}}) is None


@pytest.fixture
def ability(node: Node, slots: Slots) -> Iterator[Plugin]:
    made = Plugin(node, slots, resource=inside.ON_DEMAND)
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(made.run)
        yield made
        made.close()
        ran.result()


def test_what_is_only_told_is_given_to_none(node: Node, ability: Plugin) -> None:
    with kubelet(node.kubelet) as heard:
        wait_until(lambda: bool(heard), "the registration")
        assert messages.texts(heard[0], 3) == ["weft.dev/gpu-on-demand"]
        request = messages.encode([(1, [(1, "share-0")])])
        with pytest.raises(grpc.RpcError, match="is not given"):
            api.call(node.socket(inside.ON_DEMAND), "/v1beta1.DevicePlugin/Allocate", request)


def test_the_memory_of_the_machine_is_read_in_mebibytes(tmp_path: Path) -> None:
    said = tmp_path / "meminfo"
    said.write_text("MemFree:  5 kB\nMemTotal:       16384000 kB\n")
    assert pods.host_memory(said) == 16000
    said.write_text("")
    assert pods.host_memory(said) == 0
