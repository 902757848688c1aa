"""What the pretended GPUs of a real node tell, without a node."""

from pathlib import Path

import pytest

from controlplane.enforcer.kubelet import messages
from controlplane.enforcer.kubelet.api import owners
from controlplane.testbed.realnode import devices
from controlplane.testbed.realnode.devices import Gpus, page

GPUS = Gpus(2, 16_384, "T4", "real")


def test_a_message_is_read_as_it_was_written() -> None:
    written = messages.encode([(1, "one"), (2, [(3, "x" * 300), (4, 70_000)]), (1, "two"), (5, 0)])
    assert messages.texts(written, 1) == ["one", "two"]
    (inner,) = messages.fields(written, 2)
    assert (messages.texts(inner, 3), messages.number(inner, 4)) == (["x" * 300], 70_000)
    assert (messages.fields(written, 9), messages.number(written, 5), messages.number(written, 9)) == ([], 0, 0)


def test_bytes_are_those_of_protobuf() -> None:
    assert messages.encode([(1, "testing"), (2, 150)]) == b"\x0a\x07testing\x10\x96\x01"


def test_devices_are_those_of_the_containers_that_the_kubelet_names() -> None:
    ours = (2, [(1, devices.RESOURCE), (2, "GPU-real-1")])
    others = (2, [(1, "x.y/z"), (2, "GPU-real-0")])
    answer = messages.encode(
        [(1, [(1, "w-1-0"), (2, "weft-nlp"), (3, [(1, "main"), others, ours])]), (1, [(1, "a"), (2, "b")])]
    )
    assert owners(answer, devices.RESOURCE) == {"GPU-real-1": ("weft-nlp", "w-1-0", "main")}


def test_a_page_is_as_the_dcgm_exporter_writes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices, "FOLDER", tmp_path)
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "use").write_text("90 4000\n")
    lines = page(GPUS, {"GPU-real-1": ("weft-nlp", "w-1-0", "main")}).splitlines()
    assert lines[1] == "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"
    assert lines[3] == (
        'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-real-1",pci_bus_id="00000000:00:05.0",device="nvidia1",modelName="T4",'
        'Hostname="real",container="main",namespace="weft-nlp",pod="w-1-0"} 90'
    )
    values = {line.partition("{")[0] + line.partition('gpu="')[2][0]: line.split()[-1] for line in lines if "{" in line}
    assert values == {
        "DCGM_FI_DEV_GPU_UTIL0": "0", "DCGM_FI_DEV_GPU_UTIL1": "90",
        "DCGM_FI_DEV_FB_FREE0": "16384", "DCGM_FI_DEV_FB_FREE1": "12384",
        "DCGM_FI_DEV_FB_USED0": "0", "DCGM_FI_DEV_FB_USED1": "4000",
        "DCGM_FI_DEV_XID_ERRORS0": "0", "DCGM_FI_DEV_XID_ERRORS1": "0",
    }  # fmt: skip


def test_a_program_that_is_just_writing_says_nothing_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(devices, "FOLDER", tmp_path)
    (tmp_path / "0").mkdir()
    assert GPUS.use(0) == (0.0, 0.0)
    (tmp_path / "0" / "use").write_text("9")
    assert GPUS.use(0) == (0.0, 0.0)
