"""`kubectl apply -f` is `weft submit -f`: the same rows, and the same refusals."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from django.core import serializers

from controlplane.jobspec import jobfile
from controlplane.jobspec.named import Named
from controlplane.jobspec.shapes import (
    REQUIRED,
    Choice,
    Field,
    Flag,
    Items,
    Pairs,
    Quantity,
    Record,
    Shape,
    Text,
    Whole,
    WholeOrWord,
)
from controlplane.jobspec.spec import SpecError, parse
from controlplane.kubeobjects import conversion
from controlplane.kubeobjects.names import camel
from controlplane.models import PriorityClass, Revision, User, Workload
from controlplane.services.accounts import tokens
from controlplane.services.workloads import submission
from scheduler.model.workload import Kind
from tests.controlplane.api.conftest import Caller
from tests.controlplane.intake.conftest import SITE, Kube, workload
from tests.controlplane.kubernetes import generated
from tests.servers import ROOT

pytestmark = pytest.mark.django_db
OTHER = ("pk", "uid", "seq", "managed_by", "submitted_at", "queued_at", "reason_at")  # of every two submissions


def test_back_and_forth_a_job_file_is_the_same() -> None:
    for file in generated.files(300, 20):
        assert conversion.job_file(conversion.workload(file, "weft-"), "weft-") == file


def rows() -> dict[str, dict[str, Any]]:
    found = serializers.serialize("python", Workload.objects.order_by("seq"))
    return {one["fields"]["name"]: {n: v for n, v in one["fields"].items() if n not in OTHER} for one in found}


@pytest.mark.slow
def test_generated_job_files_make_the_same_rows_by_both_ways(kube: Kube) -> None:
    files = [{**file, "team": "red"} for file in generated.files(100, 5)]
    for file in files:
        file.pop("after", None)  # each is alone: what it starts after is not there
        file.pop("deadline", None)
    user = User.objects.get(username="ana")
    for name in {file["priority_class"] for file in files if "priority_class" in file} - {"normal", "high"}:
        PriorityClass.objects.create(name=name, value=1)
    refused: dict[str, str] = {}
    for file in files:
        try:
            submission.submit(spec=parse(file), user=user, actor="ana")
        except Exception as error:  # what one way refuses the other must as well
            refused[file["name"]] = str(error)
    ours = rows()
    assert len(ours) > len(files) / 2
    Workload.objects.all().delete()
    for file in files:
        kube.apply(conversion.workload(file, SITE.prefix))
    kube.settle()
    theirs = rows()
    for one in theirs.values():
        assert one["created_by"] == user.pk
    assert theirs == ours
    assert {name: kube.condition(name)[2] for name in refused} == refused


def test_one_file_is_the_same_job_for_kubectl_and_for_weft(kube: Kube) -> None:
    """`kubectl apply -f job.yaml` and `weft submit -f job.yaml`, of the document of the page and of generated ones."""
    page = (ROOT / "docs" / "kubernetes-objects.md").read_text()
    documents = [yaml.safe_load(page.partition("```yaml")[2].partition("```")[0])]
    documents[0]["metadata"]["namespace"] = f"{SITE.prefix}red"
    del documents[0]["spec"]["after"]
    for file in generated.files(20, 5):
        alone = {name: value for name, value in file.items() if name not in ("after", "deadline", "priority_class")}
        documents.append(conversion.workload({**alone, "team": "red"}, SITE.prefix))
    caller = Caller(tokens.create(user=User.objects.get(username="ana"), name="test").secret)
    answers = [caller.post("/workloads", one) for one in documents]
    ours, refused = rows(), [one for one in answers if one.status_code != 201]
    assert len(ours) > len(documents) / 2
    assert len(ours) + len(refused) == len(documents)
    Workload.objects.all().delete()
    for one in documents:
        kube.apply(one)
    kube.settle()
    assert rows() == ours


def test_after_and_deadline_are_the_same_too(kube: Kube) -> None:
    small = {"type": "training", "team": "red", "image": "a/b:1", "resources": {"gpus": 1, "gpu_model": "A100"}}
    files: list[dict[str, Any]] = [
        {**small, "name": "first"},
        {**small, "name": "second", "after": ["first"], "deadline": "2090-01-01T00:00:00Z"},
        {**small, "name": "third", "after": ["second", {"name": "first", "when": "ended"}]},
    ]
    for spec in map(parse, files):
        submission.submit(spec=spec, user=User.objects.get(username="ana"))
    ours = rows()
    Workload.objects.all().delete()
    for file in files:
        kube.apply(conversion.workload(file, SITE.prefix))
    kube.settle()
    assert rows() == ours


# --- a wrong value of each field ------------------------------------------------------------------


WRONG: dict[type, Callable[[Any], list[Any]]] = {
    Text: lambda shape: [7, "x" * (shape.most + 1), "a\x07", *([] if shape.may_be_empty else [""])],
    Choice: lambda shape: ["no such word"],
    Flag: lambda shape: ["yes"],
    WholeOrWord: lambda shape: ["no such word", shape.number.least - 1, shape.number.most + 1],
    Whole: lambda shape: ["7", shape.least - 1, shape.most + 1],
    Quantity: lambda shape: ["soon", "x" * 33] if shape.takes_text else ["7", 2.0**40, -1],
    Items: lambda shape: ["a b c"] if shape.takes_one else ["alone"],
    Named: lambda shape: [7, {"when": "ended"}],
    Pairs: lambda shape: [["a"], {"a": {}}],
    Record: lambda shape: ["text"],
}  # values that a shape does not take, of its own type where there are such


def places(fields: tuple[Field, ...], at: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Shape]]:
    """Every field that a file may have, with what it is; the parts of records and lists as well."""
    found: list[tuple[tuple[Any, ...], Shape]] = []
    for field in fields:
        here = (*at, field.name)
        found.append((here, field.shape))
        shape = field.shape.each if isinstance(field.shape, Items) and not field.shape.takes_one else field.shape
        inner = (*here, 0) if shape is not field.shape else here
        if shape is not field.shape:
            found.append((inner, shape))
        if isinstance(shape, Record):
            found += places(shape.fields, inner)
    return found


def with_value(file: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The file with this value there; what is on the way to it is made, with what it must have."""
    made = {**file}
    here: Any = made
    shape: Any = jobfile.RECORDS[Kind(file["type"])]
    for part, following in zip(at, (*at[1:], None), strict=True):
        shape = next(f.shape for f in shape.fields if f.name == part) if isinstance(part, str) else shape.each
        if following is None:
            here[part] = value
        elif isinstance(part, str):
            here[part] = [needed(shape.each)] if isinstance(shape, Items) else {**needed(shape), **here.get(part, {})}
            here = here[part]
        else:
            here = here[part]
    return made


def needed(shape: Shape) -> Any:
    if not isinstance(shape, Record):
        return None
    known = {"name": "abc", "key": "k", "env": "VARIABLE", "path": "/data", "count": 1, "guarantee": 0.5,
             "slots": 8, "size": 256, "memory": "1Gi", "p95_latency": "200ms", "service_time": "1s",
             "resources": {}}  # fmt: skip
    return {f.name: known[f.name] for f in shape.fields if f.default is REQUIRED}


def named(file: dict[str, Any]) -> set[str]:
    """The fields in which REST finds a fault."""
    try:
        parse(file)
    except SpecError as error:
        return {one.field for one in error.errors}
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_a_wrong_value_of_each_field_is_refused_by_the_server_or_a_condition(kube: Kube, kind: Kind) -> None:
    base = {"type": kind.value, "name": "x", "team": "red", "resources": {"cpu": 1}, "image": "a/b:1"}
    tried, later = 0, {}
    for at, shape in places((*jobfile.OWN[kind], *jobfile.BODY)):
        for value in WRONG[type(shape)](shape):
            file = {**with_value(base, at, value), "name": f"n{tried}"}
            tried += 1
            faults = named(file)
            assert any(field.startswith(at[0]) for field in faults), (at, value, faults)
            no = kube.refusal(conversion.workload(file, SITE.prefix))
            if no:
                field = ".".join(camel(part) for part in at if isinstance(part, str))
                assert field in no.replace("[0]", ""), (at, value, no)
            else:
                later[file["name"]] = file
    kube.settle()
    for name, file in later.items():
        status, reason, message = kube.condition(name)
        with pytest.raises(SpecError) as caught:
            parse(file)
        assert (status, reason, message) == ("False", "Invalid", str(caught.value)), file
    assert tried > 60
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"image": None}, "spec: Invalid value: image is missing. Add it: container image."),
        ({"replicas": {"min": 1}}, "spec.replicas: Invalid value: replicas belongs to inference. Remove it"),
        ({"idle": {"parkAfter": "5m"}}, "spec.idle: Invalid value: idle belongs to notebook."),
        ({"resources": {"gpus": 1, "gpuShare": {"guarantee": 0.5, "memory": "1Gi"}}}, "Keep gpus for whole GPUs"),
        ({"resources": {"gpuShare": {"guarantee": 0.5, "limit": 0.4, "memory": "1Gi"}}}, "guarantee to at most limit"),
        ({"workers": {"count": 1, "min": 2}}, "spec.workers.min"),
        ({"workers": {"count": 3, "max": 2}}, "Set count to at most max."),
        ({"volumes": [{"path": "/data"}]}, "Give claim: NAME for a volume of the team, or scratch: 50Gi"),
        ({"roles": [{"name": "worker", "resources": {"cpu": 1}}]}, "The workers are called worker. Choose another"),
        ({"priorityClass": "Über"}, "Use a-z, 0-9 and -, beginning and ending with a letter or digit."),
        ({"image": "No Image"}, "Give registry/name:tag, in lower case and without spaces."),
        ({"ports": [80, 80]}, ".spec.ports: duplicate entries for key [=80]"),
        ({"workres": {"count": 1}}, "field not declared in schema"),
    ],
)  # fmt: skip
def test_the_server_itself_says_what_is_wrong_and_the_fix(kube: Kube, spec: dict[str, Any], said: str) -> None:
    no = kube.refusal(workload(**spec)).replace('"string": ', "").replace('"object": ', "")
    assert said in no


def test_a_service_gets_another_image_and_is_told_of_one_that_was_taken_back(kube: Kube) -> None:
    service = {"type": "inference", "workers": None}
    kube.apply(workload("chat", **service))
    kube.settle()
    kube.apply(workload("chat", image="a/b:2", env={"A": "1"}, **service))
    kube.settle()
    made = Workload.objects.get(name="chat")
    assert (made.spec["image"], made.spec["env"], made.revision) == ("a/b:2", {"A": "1"}, 2)
    Revision.objects.filter(workload=made, number=1).update(failed="No further replica of it was ready.")
    kube.apply(workload("chat", **service))
    kube.settle()
    assert kube.condition("chat")[:2] == ("False", "RevisionFailed")


def test_what_was_submitted_stays_and_what_was_refused_may_be_mended(kube: Kube) -> None:
    kube.apply(workload())
    kube.apply(workload("bad", retries=3, maxDuration="soon"))
    kube.settle()
    for change in ({"image": "a/b:2"}, {"type": "inference"}):
        (name,) = change
        said = kube.refusal(workload(**change))
        assert f"{name} cannot change after the submission. Delete this object and apply another one." in said
    kube.apply(workload("bad", retries=4, maxDuration="1h"))
    kube.settle()
    assert kube.condition("bad")[:2] == ("True", "Accepted")
