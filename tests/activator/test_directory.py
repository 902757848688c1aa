"""The port `Directory`: a file and a Service of Kubernetes say the same of a service; what is wrong is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.lanes import Bounds
from controlplane.activator.directory import Directory, DirectoryError, Service
from controlplane.activator.filedirectory import FileDirectory, read
from controlplane.activator.kubernetes import read as read_service
from tests.activator.rig import FixedDirectory

UID = "0a1b2c3d-0000-4000-8000-00000000000a"
CHAT = Service(UID, 20_000, Bounds(8, 2.0, 7, 60.0), ("10.0.0.1:8000", "10.0.0.2:8000"))
ROW: dict[str, Any] = {
    "workload": UID, "port": 20_000, "slots": 8, "late_after": 2, "waiting": 7, "replicas": list(CHAT.replicas)
}  # fmt: skip


def of_file(folder: Path) -> Directory:
    path = folder / "services.json"
    path.write_text(json.dumps({"services": [ROW]}))
    return FileDirectory(path)


def body(**changes: Any) -> dict[str, Any]:
    """A Service as the adapter and the switch make it."""
    notes = {
        "internal.weft.dev/queue": json.dumps({"slots": 8, "late_after": 2.0, "waiting": 7}),
        "internal.weft.dev/queue-port": "20000",
    }
    labels = {"weft.dev/gateway": "true", "weft.dev/workload": UID}
    meta = {"name": "chat", "namespace": "weft-nlp", "labels": labels, "annotations": {**notes, **changes}}
    return {"metadata": meta, "spec": {"ports": [{"port": 8000, "targetPort": 8000}]}}


def test_a_file_and_a_service_of_kubernetes_say_the_same(tmp_path: Path) -> None:
    ready = {("weft-nlp", UID): ["10.0.0.1", "10.0.0.2"]}
    found = read_service(body(), ready)
    assert found is not None and found.namespace == "weft-nlp"
    for directory in (of_file(tmp_path), FixedDirectory(CHAT)):
        (service,) = directory.services()
        assert service == CHAT
        assert (found.workload, found.port, found.bounds, found.replicas, found.is_direct) == (
            service.workload, service.port, service.bounds, service.replicas, service.is_direct
        )  # fmt: skip
        assert directory.may_ask(service, "10.0.0.9")
        directory.close()


def test_a_split_is_read_alike_and_says_which_replicas_get_it(tmp_path: Path) -> None:
    note = json.dumps({"revision": 2, "percent": 10, "within": 0.2})
    ready = {("weft-nlp", UID): ["10.0.0.1", "10.0.0.2"]}
    found = read_service(body(**{"internal.weft.dev/split": note}), ready, {"10.0.0.1": 1, "10.0.0.2": 2})
    assert found is not None and found.split is not None
    assert (found.split.percent, found.split.chosen, found.split.within) == (10, ("10.0.0.2:8000",), 0.2)
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"services": [{**ROW, "split": {"percent": 10, "replicas": ["10.0.0.2:8000"]}}]}))
    (service,) = FileDirectory(path).services()
    assert service.split is not None
    assert (service.split.percent, service.split.chosen) == (10, ("10.0.0.2:8000",))


def test_a_split_that_cannot_be_read_says_why() -> None:
    for note in (
        "no json",
        "[]",
        '{"revision": 2}',
        '{"revision": 0, "percent": 5}',
        '{"revision": 2, "percent": 101}',
    ):
        with pytest.raises(DirectoryError, match=r"internal\.weft\.dev/split"):
            read_service(body(**{"internal.weft.dev/split": note}), {})
    for split in (5, {"percent": 5}, {"percent": 5, "replicas": ["10.0.0.9:1"]}, {"percent": -1, "replicas": []}):
        with pytest.raises(DirectoryError, match=r"services\[0\]\.split"):
            read(json.dumps({"services": [{**ROW, "split": split}]}))


def test_a_service_without_a_port_is_not_there_yet_and_one_that_cannot_be_read_says_why() -> None:
    assert read_service(body(**{"internal.weft.dev/queue-port": "0"}) | {"spec": {"ports": [{"port": 1}]}}, {})
    unnumbered = body()
    del unnumbered["metadata"]["annotations"]["internal.weft.dev/queue-port"]
    assert read_service(unnumbered, {}) is None
    for note in ('{"slots": 0}', "[]", "no json", '{"slots": true}', "{}"):
        with pytest.raises(DirectoryError, match=r"internal\.weft\.dev/queue"):
            read_service(body(**{"internal.weft.dev/queue": note}), {})


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("[]", "Begin it with services:"),
        ("services: {a: 1}", "Begin it with services:"),
        ("services: [", "no YAML"),
        ("services: [2026-13-45]", "no YAML"),
        ("services: [1]", "services[0] is no mapping"),
        ("services: [{port: 1}]", "services[0].workload is missing"),
        ("services: [{workload: u, port: 1}]", "services[0].slots is to be a number from 1"),
        ("services: [{workload: u, port: 0, slots: 1}]", "services[0].port is to be a number from 1 to 65535"),
        ("services: [{workload: u, port: 1, slots: yes}]", "services[0].slots"),
        ("services: [{workload: u, port: 1, slots: 1, replicas: [a]}]", "services[0].replicas is no list of addresses"),
        ("services: [{workload: u, port: 1, slots: 1, replica: []}]", "services[0].replica is not known"),
        (
            "services: [{workload: u, port: 1, slots: 1}, {workload: v, port: 1, slots: 1}]",
            "Two services have the port 1",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_fix(text: str, fix: str) -> None:
    with pytest.raises(DirectoryError) as refused:
        read(text)
    assert fix in str(refused.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DirectoryError, match="no UTF-8"):
        FileDirectory(path).services()


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="Write the services there"):
        FileDirectory(tmp_path / "none").services()
