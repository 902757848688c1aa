"""A corpus of bad input: each is a 4xx that names the field, and leaves nothing behind."""

import io
import json
import time
from typing import Any

import pytest
from django.test import Client

from controlplane.api import parsers
from controlplane.api.refusals import BadBody, TooLarge
from controlplane.models import Event, Workload
from controlplane.security.bounds import MAX_JSON
from tests.controlplane.api.conftest import V1, Caller, People, body_of, fields_of, job, people


def gpus(**asked: Any) -> dict[str, Any]:
    return job(resources={"gpus": 1, **asked})


def share(**asked: Any) -> dict[str, Any]:
    return job(resources={"gpu_share": {"guarantee": 0.3, "memory": "1Gi", **asked}})


def text(**fields: str) -> bytes:
    """A job file in which raw JSON stands for some values."""
    body = json.dumps(job(**dict.fromkeys(fields, "@@")))
    for raw in fields.values():
        body = body.replace('"@@"', raw, 1)
    return body.encode()


# what is sent -> the status, and the fields named
CORPUS: dict[str, tuple[Any, int, list[str]]] = {
    # the body as such
    "empty": (b"", 400, ["type", "name", "team", "image", "resources"]),
    "not JSON": (b"{", 400, [""]),
    "not UTF-8": (b'{"name": "\xff"}', 400, [""]),
    "byte order mark": (b"\xef\xbb\xbf{}", 400, [""]),
    "UTF-16": ("{}".encode("utf-16"), 400, [""]),
    "a list": ([], 400, [""]),
    "a number": (7, 400, [""]),
    "null": (b"null", 400, [""]),
    "NaN": (text(retries="NaN"), 400, [""]),
    "Infinity": (text(retries="-Infinity"), 400, [""]),
    "1e400": (text(retries="1e400"), 400, [""]),
    "2^63": (text(retries=str(2**63)), 400, [""]),
    "5000 digits": (text(retries="9" * 5000), 400, [""]),
    "many decimals": (text(retries="0." + "1" * 5000), 400, [""]),
    "100,000 brackets": (b"[" * 100_000, 400, [""]),
    "nested 21 deep": (b'{"a":' * 21 + b"1" + b"}" * 21, 400, [""]),
    "lists, one after the other": (b"[]" * 100_000, 400, [""]),
    "more than 20,000 values": (b"[" + b"0," * 20_000 + b"0]", 400, [""]),
    "a text of escaped quotes without an end": (b'"' + b'\\"' * 100_000, 400, [""]),
    "20,000 keys": (json.dumps({str(i): 1 for i in range(20_000)}).encode(), 400, [""]),
    "too large": (b'{"name": "' + b"a" * 300_000 + b'"}', 413, [""]),
    "long text": ({"name": "a" * 70_000}, 400, ["name"]),
    "a key twice": (b'{"name": "a", "name": "b"}', 400, ["name"]),
    "lone surrogate": (b'{"labels": {"a": "\\ud800"}}', 400, ["labels.a"]),
    "lone surrogate in a key": (b'{"\\ud800": 1}', 400, ["\ufffd"]),
    "NUL": (job(env={"A": "a\0b"}), 400, ["env.A"]),
    "NUL in a key": (job(env={"A\0": "b"}), 400, ["env.A\ufffd"]),
    "C1 control": (job(args=["\x9b31m"]), 400, ["args.0"]),
    "bidi control": (job(args=["a\u202eb"]), 400, ["args.0"]),
    # names
    "no name": (job(""), 400, ["name"]),
    "64 characters": (job("a" * 64), 400, ["name"]),
    "upper case": (job("Hello"), 400, ["name"]),
    "dots": (job(".."), 400, ["name"]),
    "leading dash": (job("-a"), 400, ["name"]),
    "emoji": (job("\U0001f600"), 400, ["name"]),
    "homoglyph": (job("hell\u043e"), 400, ["name"]),
    "zero width": (job("he\u200bllo"), 400, ["name"]),
    "newline": (job("hello\n"), 400, ["name"]),
    "other digits": (job("job\u0661"), 400, ["name"]),
    "script": (job("<script>"), 400, ["name"]),
    "template": (job("{{7*7}}"), 400, ["name"]),
    "formula": (job("=cmd()"), 400, ["name"]),
    "kube-system": (job("kube-system"), 400, ["name"]),
    "null name": (job(name=None), 400, ["name"]),
    "a list as name": (job(name=["a"]), 400, ["name"]),
    "another type": (job(type="service"), 400, ["type"]),
    "typo in a field": (job(gpus=1), 400, ["gpus"]),
    "typo in a type": (job(type="trainng"), 400, ["type"]),
    "a field of another type": (job(replicas={"min": 1}), 400, ["replicas"]),
    "simulated": (job(simulated={"duration": 5}), 400, ["simulated"]),
    "normalised": (job(normalised={}), 400, ["normalised"]),
    "server-owned fields": (job(phase="Running", uid="x", created_by="root"), 400, ["created_by", "phase", "uid"]),
    "unknown team": (job(team="green"), 404, ["team"]),
    "team not mine": (job(team="blue"), 404, ["team"]),
    "unknown class": (job(priority_class="urgent"), 422, ["priority_class"]),
    # resources
    "no resources": ({k: v for k, v in job().items() if k != "resources"}, 400, ["resources"]),
    "gpus -1": (gpus(gpus=-1), 400, ["resources.gpus"]),
    "gpus 0.5": (gpus(gpus=0.5), 400, ["resources.gpus"]),
    "gpus 2.0": (gpus(gpus=2.0), 400, ["resources.gpus"]),
    'gpus "2"': (gpus(gpus="2"), 400, ["resources.gpus"]),
    "gpus true": (gpus(gpus=True), 400, ["resources.gpus"]),
    "gpus null": (gpus(gpus=None), 400, ["resources.gpus"]),
    "gpus 10^9": (gpus(gpus=10**9), 400, ["resources.gpus"]),
    "more GPUs than a node has": (gpus(gpus=9), 422, ["resources.gpus"]),
    "more workers than the cluster holds": (job(workers={"count": 17}), 422, ["workers"]),
    "no such GPU": (gpus(gpu_model="H900"), 422, ["resources.gpu_model"]),
    "too much GPU memory": (gpus(gpu_memory="100Gi"), 422, ["resources.gpu_memory"]),
    "too much memory": (gpus(memory="1000Gi"), 422, ["resources.memory"]),
    "gpu": (gpus(gpu=1), 400, ["resources.gpu"]),
    "both": (gpus(gpu_share={"guarantee": 0.5, "memory": "1Gi"}), 400, ["resources.gpu_share"]),
    "share 0": (share(guarantee=0), 400, ["resources.gpu_share.guarantee"]),
    "share 1.5": (share(guarantee=1.5), 400, ["resources.gpu_share.guarantee"]),
    "share above limit": (share(limit=0.2), 400, ["resources.gpu_share.guarantee"]),
    "share too fine": (share(guarantee=0.3333), 400, ["resources.gpu_share.guarantee"]),
    "share as text": (share(guarantee="0.3"), 400, ["resources.gpu_share.guarantee"]),
    "share true": (share(limit=True), 400, ["resources.gpu_share.limit"]),
    "memory with a blank": (gpus(memory="10GiB "), 400, ["resources.memory"]),
    "memory 1e3Gi": (gpus(memory="1e3Gi"), 400, ["resources.memory"]),
    "memory -1Mi": (gpus(memory="-1Mi"), 400, ["resources.memory"]),
    "memory 0": (gpus(memory="0"), 400, ["resources.memory"]),
    "memory in apples": (gpus(memory="5 apples"), 400, ["resources.memory"]),
    "memory 2^70": (gpus(memory="1000000000000000Gi"), 400, ["resources.memory"]),
    "memory as a number": (gpus(memory=1024), 400, ["resources.memory"]),
    "cpu 0": (gpus(cpu=0), 400, ["resources.cpu"]),
    "cpu 0.0001": (gpus(cpu=0.0001), 400, ["resources.cpu"]),
    "shared memory above memory": (gpus(memory="1Gi", shared_memory="2Gi"), 400, ["resources.shared_memory"]),
    # workers and times
    "workers 0": (job(workers={"count": 0}), 400, ["workers.count"]),
    "workers 10^6": (job(workers={"count": 10**6}), 400, ["workers.count"]),
    "min above max": (job(workers={"count": 8, "min": 9, "max": 8}), 400, ["workers.min", "workers.min"]),
    "workers as a number": (job(workers=4), 400, ["workers"]),
    "no count": (job(workers={"min": 1}), 400, ["workers.count"]),
    "retries -1": (job(retries=-1), 400, ["retries"]),
    "runtime 0": (job(max_duration="0s"), 400, ["max_duration"]),
    "runtime 10 y": (job(max_duration="3650d"), 400, ["max_duration"]),
    "runtime without unit": (job(max_duration="10"), 400, ["max_duration"]),
    "runtime as a number": (job(max_duration=10), 400, ["max_duration"]),
    "expected above max": (job(expected_duration="2h", max_duration="1h"), 400, ["expected_duration"]),
    "deadline without zone": (job(deadline="2026-12-01T08:00:00"), 400, ["deadline"]),
    "deadline junk": (job(deadline="tomorrow"), 400, ["deadline"]),
    "deadline in year 9999": (job(deadline="9999-12-31T23:59:59Z"), 400, ["deadline"]),
    "deadline in the past": (job(deadline="2020-01-01T00:00:00Z"), 422, ["deadline"]),
    # what runs
    "no image": (job(image=""), 400, ["image"]),
    "image with blanks": (job(image="a b"), 400, ["image"]),
    "image with a command": (job(image="a;rm"), 400, ["image"]),
    "image with dots": (job(image="../a"), 400, ["image"]),
    "image with a user": (job(image="u:p@host/a"), 400, ["image"]),
    "image in upper case": (job(image="Registry/App"), 400, ["image"]),
    "short digest": (job(image="a@sha256:abc"), 400, ["image"]),
    "image of 4 KiB": (job(image="a" * 4096), 400, ["image"]),
    "10^4 arguments": (job(args=["a"] * 10_000), 400, ["args"]),
    "command as text": (job(command="python train.py"), 400, ["command"]),
    "env as a list": (job(env=["A=1"]), 400, ["env"]),
    "env with a number": (job(env={"EPOCHS": 3}), 400, ["env.EPOCHS"]),
    "1,000 variables": (job(env={f"A{i}": "1" for i in range(1_000)}), 400, ["env"]),
    "LD_PRELOAD": (job(env={"LD_PRELOAD": "x"}), 400, ["env.LD_PRELOAD"]),
    "ld_preload": (job(env={"ld_preload": "x"}), 400, ["env.ld_preload"]),
    "NVIDIA_": (job(env={"NVIDIA_VISIBLE_DEVICES": "all"}), 400, ["env.NVIDIA_VISIBLE_DEVICES"]),
    "CUDA": (job(env={"CUDA_VISIBLE_DEVICES": "0"}), 400, ["env.CUDA_VISIBLE_DEVICES"]),
    "MPS": (job(env={"CUDA_MPS_PIPE_DIRECTORY": "/"}), 400, ["env.CUDA_MPS_PIPE_DIRECTORY"]),
    "KUBERNETES_": (job(env={"KUBERNETES_SERVICE_HOST": "x"}), 400, ["env.KUBERNETES_SERVICE_HOST"]),
    "our prefix": (job(env={"WEFT_RANK": "0"}), 400, ["env.WEFT_RANK"]),
    "env and secret of one name": (
        job(env={"A": "1"}, secrets=[{"name": "s", "key": "k", "env": "A"}]),
        400,
        ["secrets.0.env"],
    ),
    "host path": (job(volumes=[{"host_path": "/", "claim": "c", "path": "/d"}]), 400, ["volumes.0.host_path"]),
    "volume on /": (job(volumes=[{"claim": "c", "path": "/"}]), 400, ["volumes.0.path"]),
    "volume on /proc": (job(volumes=[{"claim": "c", "path": "/proc/1"}]), 400, ["volumes.0.path"]),
    "volume with dots": (job(volumes=[{"claim": "c", "path": "/a/../b"}]), 400, ["volumes.0.path"]),
    "volume over the driver": (job(volumes=[{"claim": "c", "path": "/usr/local/nvidia"}]), 400, ["volumes.0.path"]),
    "node selector": (job(node_selector={"a": "b"}), 400, ["node_selector"]),
    "tolerations": (job(tolerations=[]), 400, ["tolerations"]),
    "privileged": (job(security_context={"privileged": True}), 400, ["security_context"]),
    "topology nowhere": (job(topology={"require": "moon"}), 400, ["topology.require"]),
    "topology wider": (job(topology={"require": "node", "prefer": "zone"}), 400, ["topology.prefer"]),
    "after itself": (job("a", after=["a"]), 400, ["after"]),
    "after nobody": (job(after=["nobody"]), 422, ["after"]),
    "after twice": (job(after=["a", "a"]), 400, ["after"]),
    "after twice by different rules": (job(after=["a", {"name": "a", "when": "ended"}]), 400, ["after"]),
    "after by no rule": (job(after=[{"name": "a", "when": "done"}]), 400, ["after.0.when"]),
    "after without a name": (job(after=[{"when": "ended"}]), 400, ["after.0.name"]),
    "after with more": (job(after=[{"name": "a", "at": 1}]), 400, ["after.0.at"]),
    "after a number": (job(after=[1]), 400, ["after.0"]),
    "availability 101": (
        job(type="inference", objective={"p95_latency": "1s", "availability": 101}),
        400,
        ["objective.availability"],
    ),
    "latency 0": (job(type="inference", objective={"p95_latency": "0s"}), 400, ["objective.p95_latency"]),
}


@pytest.mark.parametrize("path", ["/workloads", "/workloads:preview"])
def test_every_bad_job_file_is_refused_by_field_and_leaves_nothing(db: None, path: str) -> None:
    api = people()
    events = Event.objects.count()
    for what, (body, status, fields) in CORPUS.items():
        began = time.monotonic()
        answer = api.member.post(path, body)
        assert (answer.status_code, what) == (status, what), answer.content
        assert (fields_of(answer, status), what) == (fields, what)
        assert time.monotonic() - began < 1, what
        assert b"Traceback" not in answer.content
        # Others are unaffected, and nothing was written.
        assert body_of(api.blue_member.get("/workloads"))["results"] == [], what
        assert not Workload.objects.exists(), what
    assert Event.objects.count() == events


WHOLE_REQUESTS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "another content type": ("POST", "/workloads", {"content_type": "text/yaml"}, 415),
    "a form": ("POST", "/workloads", {"content_type": "application/x-www-form-urlencoded"}, 415),
    "multipart": ("POST", "/workloads", {"content_type": "multipart/form-data; boundary=x"}, 415),
    "accept XML": ("GET", "/workloads", {"accept": "text/xml"}, 406),
    "accept junk": ("GET", "/workloads", {"accept": ";;;"}, 406),
    "unknown parameter": ("GET", "/workloads?colour=red", {}, 400),
    "format": ("GET", "/workloads?format=json", {}, 400),
    "token in the address": ("GET", "/workloads?token=weft_x", {}, 400),
    "parameter twice": ("GET", "/workloads?team=red&team=blue", {}, 400),
    "page size 0": ("GET", "/workloads?page_size=0", {}, 400),
    "page size 201": ("GET", "/workloads?page_size=201", {}, 400),
    "page size of 23 digits": ("GET", "/workloads?page_size=99999999999999999999999", {}, 400),
    "page size -1": ("GET", "/workloads?page_size=-1", {}, 400),
    "page size of other digits": ("GET", "/workloads?page_size=%D9%A1", {}, 400),
    "empty page size": ("GET", "/workloads?page_size=", {}, 400),
    "forged cursor": ("GET", "/workloads?cursor=abc", {}, 400),
    "cursor not base64": ("GET", "/workloads?cursor=%00%ff", {}, 400),
    "cursor of JSON null": ("GET", "/workloads?cursor=bnVsbA", {}, 400),
    "ordering by password": ("GET", "/workloads?ordering=created_by__password", {}, 400),
    "filter across tables": ("GET", "/workloads?created_by__password=x", {}, 400),
    "unknown phase": ("GET", "/workloads?phase=Running,Broken", {}, 400),
    "NUL in a parameter": ("GET", "/workloads?name=%00", {}, 400),
    "surrogate in a parameter": ("GET", "/workloads?q=%ED%A0%80", {}, 200),
    "10 KiB in a parameter": ("GET", f"/workloads?q={'a' * 10_240}", {}, 400),
    "logs tail -1": ("GET", "/workloads/UID/logs?tail=-1", {}, 400),
    "logs tail 10^9": ("GET", "/workloads/UID/logs?tail=1000000000", {}, 400),
    "logs since NaN": ("GET", "/workloads/UID/logs?since=nan", {}, 400),
    "logs rank x": ("GET", "/workloads/UID/logs?rank=x", {}, 400),
    "not a uuid": ("GET", "/workloads/1", {}, 404),
    "a uuid that is none": ("GET", "/workloads/00000000-0000-4000-8000-000000000000", {}, 404),
    "NUL in the address": ("GET", "/workloads/%00", {}, 404),
    "10 KiB in the address": ("GET", f"/workloads/{'a' * 10_240}", {}, 404),
    "trailing slash": ("GET", "/workloads/", {}, 404),
    "unknown route": ("GET", "/nothing", {}, 404),
    "unknown route, posted": ("POST", "/nothing", {}, 404),
    "unknown action": ("POST", "/workloads/UID/explode", {}, 404),
    "PUT": ("PUT", "/workloads", {}, 405),
    "TRACE": ("TRACE", "/workloads", {}, 405),
    "OPTIONS": ("OPTIONS", "/workloads", {}, 405),
    "method override": ("POST", "/workloads/UID", {"x_http_method_override": "DELETE"}, 405),
    "a body in chunks": ("POST", "/workloads/UID/stop", {"transfer_encoding": "chunked"}, 411),
    "If-Match junk": ("PATCH", "/workloads/UID", {"if_match": "abc"}, 400),
    "key of 256 characters": ("POST", "/workloads", {"idempotency_key": "a" * 256}, 400),
    "key that is empty": ("POST", "/workloads", {"idempotency_key": ""}, 400),
    "key that is not ASCII": ("POST", "/workloads", {"idempotency_key": "schl\u00fcssel"}, 400),
    "key with a control": ("POST", "/workloads", {"idempotency_key": "a\tb"}, 400),
    "usage backwards": ("GET", "/usage?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", {}, 400),
    "usage of 10 years": ("GET", "/usage?from=2016-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", {}, 400),
    "usage without zone": ("GET", "/usage?from=2026-01-01", {}, 400),
    "usage by colour": ("GET", "/usage?group_by=colour", {}, 400),
    "usage step 1 ms": ("GET", "/usage?granularity=1ms", {}, 400),
}


@pytest.mark.parametrize("what", WHOLE_REQUESTS)
def test_every_bad_request_is_refused_as_documented(api: People, what: str) -> None:
    uid = body_of(api.member.post("/workloads", job("live")), 201)["uid"]
    method, path, headers, status = WHOLE_REQUESTS[what]
    body = job() if path == "/workloads" and method == "POST" else {} if method == "PATCH" else None
    answer = api.member.send(method, path.replace("UID", uid), body, **headers)
    if status < 400:
        body_of(answer, status)
    else:
        fields_of(answer, status)
    assert [row["name"] for row in body_of(api.member.get("/workloads"))["results"]] == ["live"]
    assert Workload.objects.get().phase == "Queued"


def test_an_action_takes_no_body(api: People) -> None:
    uid = body_of(api.member.post("/workloads", job()), 201)["uid"]
    assert fields_of(api.member.post(f"/workloads/{uid}/stop", {"force": True})) == [""]
    assert fields_of(api.member.post(f"/workloads/{uid}/stop", b"{"), 400) == [""]
    assert Workload.objects.get().phase == "Queued"


def test_a_fault_of_ours_is_a_problem_without_a_trace(api: People, monkeypatch: pytest.MonkeyPatch) -> None:
    from controlplane.api.views import platform

    def broken() -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(platform.queries, "cluster_state", broken)
    careful = Caller(api.member.token, client=Client(raise_request_exception=False))
    answer = careful.get("/cluster")
    assert fields_of(answer, 500) == [""]
    assert b"secret detail" not in answer.content


def test_health_needs_no_sign_in_and_tells_nothing(db: None) -> None:
    for path in ("/healthz", "/readyz"):
        answer = Client().get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert Client().post(path).status_code == 405


def test_an_address_with_a_line_break_in_it_is_a_problem_too(db: None) -> None:
    answer = Client().delete(f"{V1}/teams/nlp/members/a%0A/b")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")


def test_what_is_missing_under_the_prefix_is_a_problem_too(db: None) -> None:
    for path in ("/api/", "/api/v2/workloads", "/api/v1", f"{V1}/"):
        answer = Client().get(path)
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")


def read(text: str) -> Any:
    """What the parser of bodies makes of it; None if it refuses."""
    try:
        return parsers.StrictJSONParser().parse(io.BytesIO(text.encode()))
    except (BadBody, TooLarge):
        return None


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("largest", "beyond"),
    [
        (str(2**53), str(2**53 + 1)),
        (str(-(2**53)), str(-(2**53) - 1)),
        (f"{2**53}.0", f"{2**53 + 2}.0"),
        (f"0.{'1' * 28}", f"0.{'1' * 29}"),
        ("1e15", "1e16"),
        (nested(parsers.MAX_DEPTH), nested(parsers.MAX_DEPTH + 1)),
        (json.dumps(dict.fromkeys(map(str, range(parsers.MAX_KEYS)), 1)), json.dumps([{"a": 1}] * 2001)),
        (json.dumps([1] * parsers.MAX_VALUES), json.dumps([1] * (parsers.MAX_VALUES + 1))),
        (json.dumps("a" * parsers.MAX_TEXT), json.dumps("a" * (parsers.MAX_TEXT + 1))),
        ("7" + " " * (MAX_JSON - 1), "7" + " " * MAX_JSON),
    ],
)
def test_a_body_is_read_up_to_each_bound_and_refused_beyond_it(largest: str, beyond: str) -> None:
    assert read(largest) == json.loads(largest)
    assert read(beyond) is None


def test_a_field_that_is_given_twice_is_named_by_its_first_sixty_characters() -> None:
    with pytest.raises(BadBody) as refused:
        parsers.loads(json.dumps({"a" * 61: 1})[:-1].encode() + b', "' + b"a" * 61 + b'": 2}')
    (fault,) = refused.value.errors
    assert (fault.field, fault.message) == ("a" * 60, f"{'a' * 60} is given twice in one object. Keep one.")
