import posixpath
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.jobspec import jobfile, quantities
from controlplane.jobspec.spec import SpecError, amended, parse, schemas
from gpushare.gpu import Share
from scheduler.model.workload import Gang, Kind, Level
from tests.test_architecture import ROOT

HELLO = {
    "type": "training",
    "name": "hello",
    "team": "nlp",
    "image": "registry.example/app:1",
    "resources": {"gpus": 1},
}


def faults(document: Any) -> dict[str, str]:
    with pytest.raises(SpecError) as refused:
        parse(document)
    return {error.field: error.message for error in refused.value.errors}


def documented() -> list[dict[str, Any]]:
    """The job files of docs/job-file.md."""
    text = (ROOT / "docs" / "job-file.md").read_text().split("```yaml\n")[1].split("```")[0]
    return list(yaml.safe_load_all(text))


def test_the_documented_job_files_are_read() -> None:
    training, notebook, service = (parse(document) for document in documented())
    assert training.workers == Gang(4, 2, 8)
    assert (training.resources.gpus, training.resources.models) == (1, ("A100", "H100"))
    assert (training.resources.cpu_milli, training.resources.memory) == (8000, 65_536)
    assert (training.topology.require, training.topology.prefer) == (Level.RACK, Level.NODE)
    assert (training.checkpoint.interval, training.checkpoint.grace) == (600, 60)
    assert (training.expected_duration, training.max_duration, training.retries) == (21_600, 43_200, 2)
    assert notebook.resources.share == Share(200, 1000, 8192)
    assert service.type is Kind.INFERENCE
    assert (service.workers, service.port) == (Gang(1, 1, 6), 8000)
    assert service.objective is not None
    assert (service.objective.p95, service.objective.availability) == (0.2, 0.999)
    assert service.objective.window == 28 * 86_400


@pytest.mark.parametrize("document", [HELLO, *documented()])
def test_the_text_with_defaults_means_the_same(document: dict[str, Any]) -> None:
    spec = parse(document)
    text = {name: value for name, value in spec.document().items() if name != "normalised"}
    assert parse(text) == spec
    assert text.keys() >= document.keys()


def test_all_faults_are_named_at_once_with_what_to_do() -> None:
    named = faults(
        {
            **HELLO,
            "name": "Hello",
            "colour": "red",
            "workers": {"count": 8, "min": 9, "max": 8},
            "resources": {"gpus": "2", "memory": "5 apples"},
            "env": {"LD_PRELOAD": "x"},
            "max_duration": 90,
        }
    )
    assert set(named) == {
        "name",
        "colour",
        "workers.min",
        "resources.gpus",
        "resources.memory",
        "env.LD_PRELOAD",
        "max_duration",
    }
    assert named["resources.gpus"] == 'resources.gpus is "2". Write a whole number without quotes: 2.'


def test_numbers_that_contradict_each_other_are_named_by_the_smaller_one() -> None:
    message = faults({**HELLO, "workers": {"count": 8, "min": 9, "max": 8}})["workers.min"]
    assert message == "workers.min is 9 but workers.count is 8. Set min to at most 8."


def test_a_typo_is_answered_with_what_was_meant() -> None:
    assert (
        faults({**HELLO, "comand": ["a"]})["comand"] == "comand is not a field of the job file. Did you mean command?"
    )
    asked = {**HELLO, "resources": {"gpu": 1}}
    assert faults(asked)["resources.gpu"].endswith("Write gpus: 1 for whole GPUs, or gpu_share for a part of one.")
    assert faults({**HELLO, "type": "trainign"})["type"] == 'type is "trainign". Did you mean training?'


def test_a_field_of_another_type_is_said_to_be_one() -> None:
    message = faults({**HELLO, "replicas": {"min": 1}})["replicas"]
    assert message == "replicas is not a field of the job file. It belongs to inference; this is training. Remove it."


def test_volumes_are_by_claim_or_scratch_only() -> None:
    named = faults({**HELLO, "volumes": [{"host_path": "/", "path": "/data"}]})
    hint = "A volume is a claim or scratch space: {claim: datasets, path: /data}."
    assert named["volumes.0.host_path"].endswith(hint)
    volumes = [{"path": "/a"}, {"claim": "c", "scratch": "1Gi", "path": "/b"}]
    named = faults({**HELLO, "volumes": [*volumes, {"scratch": "1Gi", "path": "/c", "read_only": True}]})
    assert named["volumes.0"].startswith("volumes.0 has neither claim nor scratch. Give claim: NAME")
    assert named["volumes.1"].startswith("volumes.1 has both claim and scratch.")
    assert named["volumes.2.read_only"] == "volumes.2 is scratch space, which begins empty. Remove read_only."


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("//etc", "which is the system's. Choose a path such as /data."),
        ("/./etc", "which is the system's."),
        ("/usr//local/nvidia", "which is the system's."),
        ("//dev", "which is the system's."),
        ("/var//run/x", "which is the system's."),
        ("/usr/local/", "which is the system's."),
        ("//", "which is the system's."),
        ("/data/../etc", "which holds `..`. Write the path without it."),
        ("/data/", '"/data/". Write it as /data.'),
        ("/data//x", "Write it as /data/x."),
        ("/data/./x/.", "Write it as /data/x."),
        ("//data", "Write it as /data."),
        ("data", "Give an absolute path"),
        ("/a:b", "without `:`"),
    ],
)
def test_a_mount_path_has_one_way_to_be_written(path: str, said: str) -> None:
    assert said in faults({**HELLO, "volumes": [{"claim": "c", "path": path}]})["volumes.0.path"]


@given(st.sampled_from(("", *jobfile.RESERVED_PATHS)), st.text("/.ab", max_size=12))
@example("", "/a/b")
def test_a_path_without_fault_is_normal_and_neither_in_nor_above_a_reserved_one(head: str, tail: str) -> None:
    path = head + tail
    is_normal = path == posixpath.normpath(path) and path[:1] == "/" != path[1:2] and ".." not in path.split("/")
    reserved = [f"{one}/" for one in jobfile.RESERVED_PATHS]
    covers = any(f"{path}/".startswith(one) or one.startswith(f"{path.rstrip('/')}/") for one in reserved)
    assert (jobfile.PATH.fault(path) == "") == (is_normal and not covers)


def test_a_role_sets_no_variable_that_a_secret_sets() -> None:
    secrets = [{"name": "s", "key": "k", "env": "TOKEN"}]
    role = {"name": "ps", "resources": {"cpu": 1}, "env": {"TOKEN": "x"}}
    named = faults({**HELLO, "secrets": secrets, "roles": [role]})
    assert named == {"roles.0.env": "roles.0.env: TOKEN is set twice. Keep one."}


@pytest.mark.parametrize("key", [".", "..", "..data"])
def test_a_secrets_key_is_one_that_kubernetes_can_have(key: str) -> None:
    named = faults({**HELLO, "secrets": [{"name": "s", "key": key, "env": "TOKEN"}]})
    assert named["secrets.0.key"].endswith("which no key of a secret may be. Rename the key.")


def test_other_devices_are_named_by_domain_and_never_gpus() -> None:
    spec = parse({**HELLO, "resources": {"gpus": 1, "extra": {"rdma/hca": 1}}})
    assert spec.extra == {"rdma/hca": 1}
    for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "kubernetes.io/x", "hca", "memory"):
        assert set(faults({**HELLO, "resources": {"extra": {name: 1}}})) == {f"resources.extra.{name}"}


def test_tf_config_has_room_for_so_many_workers() -> None:
    many = {**HELLO, "workers": {"count": 2, "max": 1001}}
    assert parse(many).framework == ""
    assert faults({**many, "framework": "tensorflow"}) == {
        "workers.max": "workers.max is 1001, but TF_CONFIG has no room for so many. "
        "Set it to at most 1000, or remove framework."
    }


@pytest.mark.parametrize(("limit", "expected"), [({}, Share(300, 300, 1024)), ({"limit": 1}, Share(300, 1000, 1024))])
def test_a_share_is_exact_in_thousandths(limit: dict[str, Any], expected: Share) -> None:
    asked = parse({**HELLO, "resources": {"gpu_share": {"guarantee": 0.3, "memory": "1Gi", **limit}}}).resources
    assert asked.share == expected
    assert asked.milli == 300


def test_a_share_that_is_no_exact_thousandth_is_refused() -> None:
    share = {"guarantee": 0.1 + 0.2, "memory": "1Gi"}
    assert (
        "more than 3 decimals" in faults({**HELLO, "resources": {"gpu_share": share}})["resources.gpu_share.guarantee"]
    )


@given(st.integers(1, 1000))
def test_every_thousandth_survives_the_way_through_a_float(milli: int) -> None:
    share = {"guarantee": milli / 1000, "memory": "1Gi"}
    asked = parse({**HELLO, "resources": {"gpu_share": share}}).resources
    assert asked.share is not None
    assert asked.share.guarantee == milli


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({field.name for record in jobfile.RECORDS.values() for field in record.fields})


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), JUNK, max_size=6), st.sampled_from([*Kind, None]))
def test_whatever_comes_is_read_or_refused_by_field(changes: dict[str, Any], kind: Kind | None) -> None:
    document = {**HELLO, **changes} if kind is None else {**HELLO, "type": kind.value, **changes}
    try:
        spec = parse(document)
    except SpecError as refused:
        assert refused.errors
        assert all(error.message.endswith(".") or error.message.endswith("?") for error in refused.errors)
        for error in refused.errors:
            error.field.encode()
            error.message.encode()
    else:
        text = {name: value for name, value in spec.document().items() if name != "normalised"}
        assert parse(text) == spec


@given(JUNK)
def test_what_is_no_object_is_refused(junk: Any) -> None:
    if not isinstance(junk, dict):
        assert set(faults(junk)) == {""}


def test_simulated_is_for_presets_only() -> None:
    document = {**HELLO, "simulated": {"duration": 60.0}}
    assert set(faults(document)) == {"simulated"}
    spec = parse(document, allow_simulated=True)
    assert spec.simulated == {"duration": 60.0}
    assert spec.document()["simulated"] == {"duration": 60.0}


def test_an_amended_file_is_read_again_as_a_whole() -> None:
    stored = parse({**HELLO, "max_duration": "2h", "workers": {"count": 4, "min": 2, "max": 8}}).document()
    spec = amended(stored, {"workers": {"max": 6}, "labels": {"a": "b"}, "max_duration": None})
    assert (spec.workers, spec.labels, spec.max_duration) == (Gang(4, 2, 6), {"a": "b"}, None)
    with pytest.raises(SpecError, match=r"expected_duration is 10800s but max_duration is 7200s"):
        amended(stored, {"expected_duration": "3h"})
    with pytest.raises(SpecError, match=r"name cannot change after the submission"):
        amended(stored, {"name": "other"})
    with pytest.raises(SpecError, match=r"colour is not a field that can change"):
        amended(stored, {"colour": "red"})


def test_a_gang_of_fixed_size_is_resized_by_its_count_alone() -> None:
    stored = parse(HELLO).document()
    assert amended(stored, {"workers": {"count": 4}}).workers == Gang(4, 4, 4)


def test_what_a_preset_knows_survives_a_change() -> None:
    stored = parse({**HELLO, "simulated": {"duration": 1.0}}, allow_simulated=True).document()
    assert amended(stored, {"labels": {}}).simulated == {"duration": 1.0}


def test_every_field_is_in_the_schema_with_a_sentence() -> None:
    for kind, schema in schemas().items():
        record = jobfile.RECORDS[Kind(kind)]
        assert list(schema["properties"]) == [field.name for field in record.fields]
        assert schema["additionalProperties"] is False
        assert all(one["description"] for one in schema["properties"].values())


@pytest.mark.parametrize(
    ("text", "mib"),
    [("64Gi", 65_536), ("512Mi", 512), ("1Ki", 1), ("1G", 954), ("1048576", 1), ("1.5Gi", 1536), ("1Ti", 1_048_576)],
)
def test_memory_is_mib_rounded_up(text: str, mib: int) -> None:
    assert quantities.memory_mib(text) == mib


@pytest.mark.parametrize("text", ["", "Gi", "-1Gi", "1gi", "1 Gi", "1e3Gi", "0x10", "\u0661Gi", "500m", "1Gi\n"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Write for example 64Gi"):
        quantities.memory_mib(text)


@pytest.mark.parametrize(("text", "milli"), [("8", 8000), ("500m", 500), ("0.5", 500), ("1.001", 1001)])
def test_cpu_is_thousandths_of_a_core(text: str, milli: int) -> None:
    assert quantities.cpu_milli(text) == milli


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("90s", 90), ("1.5h", 5400), ("10m", 600), ("28d", 2_419_200), ("2w", 1_209_600)],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert quantities.seconds(text) == seconds


@given(st.integers(0, 4_000_000_000))
def test_a_moment_survives_the_way_through_text(at: int) -> None:
    assert quantities.moment(quantities.iso(at)) == at


@pytest.mark.parametrize(
    ("asked", "least", "below", "most", "above"),
    [
        ("max_duration", "1s", "999ms", "366d", "367d"),
        ("resources.memory", "1Mi", "0Mi", "1024Ti", "1025Ti"),
        ("resources.gpu_share.guarantee", 0.001, 0.0, 1, 1.001),
    ],
)
def test_the_least_and_the_most_of_a_quantity_are_taken_and_said(
    asked: str, least: Any, below: Any, most: Any, above: Any
) -> None:
    def with_(value: Any) -> dict[str, Any]:
        file: dict[str, Any] = {**HELLO, "resources": {"cpu": 1}}
        if asked.startswith("resources.gpu_share"):
            file["resources"] = {"gpu_share": {"guarantee": value, "memory": "1Gi"}}
        elif asked == "resources.memory":
            file["resources"] = {"cpu": 1, "memory": value}
        else:
            file[asked] = value
        return file

    for value in (least, most):
        parse(with_(value))
    for value, edge in ((below, f"at least {least}"), (above, f"at most {most}")):
        assert edge in faults(with_(value))[asked]
    if asked.startswith("resources.gpu_share"):
        assert faults(with_("0.5"))  # a number, not its text


def test_what_is_named_twice_is_said_once_by_its_place() -> None:
    twice = faults({**HELLO, "after": [{"name": "x"}, {"name": "y"}, {"name": "x"}]})
    assert twice == {"after": "after names x twice. Keep one."}
    assert faults({**HELLO, "after": [{"name": "hello"}]}) == {"after": "after names hello itself. Remove it."}
    secret = {"name": "s", "key": "k", "env": "TOKEN"}
    assert faults({**HELLO, "env": {"TOKEN": "1"}, "secrets": [secret]}) == {
        "secrets.0.env": "secrets.0.env: TOKEN is set twice. Keep one."
    }
    ports = faults({**HELLO, "volumes": [{"claim": "a", "path": "/x"}, {"scratch": "1Gi", "path": "/x"}]})
    assert ports == {"volumes.1.path": "volumes.1.path: /x is mounted twice. Keep one."}


@pytest.mark.parametrize("field", ["after", "env", "secrets", "volumes", "roles", "workers", "topology"])
def test_a_field_that_cannot_be_read_is_the_only_fault(field: str) -> None:
    assert list(faults({**HELLO, "framework": "tensorflow", field: 7})) == [field]


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        ({"cpu": 1, "gpu_model": "A100"}, "gpu_model is given, but no GPU is asked for. Add gpus, or remove it."),
        (
            {"cpu": 1, "gpu_memory": "40Gi"},
            "gpu_memory is given, but no whole GPU is asked for. Add gpus, or remove it.",
        ),
        (
            {"gpu_share": {"guarantee": 0.3, "memory": "1Gi"}, "gpu_memory": "40Gi"},
            "gpu_memory is given, but no whole GPU is asked for. Use gpu_share.memory.",
        ),
    ],
)
def test_what_is_said_of_a_gpu_needs_a_gpu(asked: dict[str, Any], fault: str) -> None:
    field = fault.partition(" ")[0]
    assert faults({**HELLO, "resources": asked}) == {f"resources.{field}": f"resources.{fault}"}
    share = {"guarantee": 0.3, "memory": "1Gi"}
    assert parse({**HELLO, "resources": {"gpus": 1, "gpu_model": "A100", "gpu_memory": "40Gi"}})
    assert parse({**HELLO, "resources": {"gpu_share": share, "gpu_model": "A100"}})
    assert list(faults({**HELLO, "resources": {"gpu_share": share, "gpus": 1}})) == ["resources.gpu_share"]
