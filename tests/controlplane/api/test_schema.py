"""The OpenAPI document: valid, whole, and what the server does."""

import json
import re
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from controlplane.api import urls
from controlplane.api.endpoint import VERBS
from controlplane.wsgi import application
from tests.controlplane.api.conftest import People, body_of, job
from tests.controlplane.api.test_access import MATRIX

CASES = 2  # of each operation and mode, in this process; tests/flows/test_fuzz.py has ten times as many over HTTP
ONLY_WITH_CELLS = {"cell"}  # of a workload, where the cluster has several
CASES_OF_LOGIN = 1  # each checks a password, slowly


def document() -> dict[str, Any]:
    answer = Client().get("/api/v1/schema", headers={"accept": "application/vnd.oai.openapi+json"})
    assert answer.status_code == 200
    return json.loads(answer.content)  # type: ignore[no-any-return]


@pytest.mark.django_db
def test_the_document_is_valid_and_has_every_operation() -> None:
    schema = document()
    validate_schema(schema)
    assert schema["openapi"] == "3.1.0"
    operations = [one for methods in schema["paths"].values() for one in methods.values()]
    assert len(operations) == len(MATRIX)
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert all(one["description"] and one["tags"] for one in operations)


def validator(schema: dict[str, Any], name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": schema["components"]})


def test_answers_are_as_documented(api: People) -> None:
    schema = document()
    made = body_of(api.member.post("/workloads", job()), 201)
    for name, path in {
        "Workload": f"/workloads/{made['uid']}",
        "WorkloadPage": "/workloads",
        "EventPage": f"/workloads/{made['uid']}/events",
        "Explanation": f"/workloads/{made['uid']}/explanation",
        "Placement": f"/workloads/{made['uid']}/placement",
        "DecisionPage": f"/workloads/{made['uid']}/decisions",
        "Eta": f"/workloads/{made['uid']}/eta",
        "Metrics": f"/workloads/{made['uid']}/metrics",
        "PodPage": f"/workloads/{made['uid']}/pods",
        "AllocationPage": f"/workloads/{made['uid']}/allocations",
        "Cost": f"/workloads/{made['uid']}/cost",
        "DeviceList": "/gpus",
        "GpuProfileList": "/gpu-profiles",
        "TopologyPage": "/topologies",
        "Queue": "/queue",
        "Team": "/teams/red",
        "TeamList": "/teams",
        "NodeList": "/nodes",
        "NodePoolList": "/node-pools",
        "QuotaList": "/quotas",
        "ShareList": "/shares",
        "BudgetList": "/teams/red/budgets",
        "Budget": "/teams/red/budgets/month",
        "PriorityClassList": "/priority-classes",
        "Usage": "/usage",
        "CellList": "/cells",
        "Cluster": "/cluster",
        "Me": "/me",
        "TokenList": "/tokens",
        "NoticeList": "/notices",
        "SubscriptionList": "/notification-subscriptions",
        "WebhookList": "/webhooks",
        "Policy": "/policies/0",
        "PolicyList": "/policies",
    }.items():
        found = body_of(api.viewer.get(path))
        validator(schema, name).validate(found)
        documented = schema["components"]["schemas"][name]["properties"]
        assert set(found) == set(documented) - ONLY_WITH_CELLS, name


def test_the_document_has_every_route_with_the_parameters_that_its_view_reads() -> None:
    """The document is made from what views declare; what they do besides would drift from it."""
    paths, known = document()["paths"], set()
    for pattern in urls.v1:
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern)).replace("{pk}", "{id}")
        for verb in VERBS:
            method = getattr(pattern.callback.view_class, verb, None)
            if method is None:
                continue
            known.add((verb, path))
            told = paths[f"/api/v1/{path}"][verb]
            read = {one.name: one.shape.schema() for one in method.endpoint.parameters}
            given = {one["name"]: one["schema"] for one in told.get("parameters", ()) if one["in"] == "query"}
            assert given.keys() == read.keys(), (verb, path)
            assert all(schema.items() <= given[name].items() for name, schema in read.items()), (verb, path)
            reads_version = "If-Match" in {one["name"] for one in told.get("parameters", ())}
            assert reads_version == ("412" in told["responses"]) or path == "workloads:apply", (verb, path)
    assert known == {(verb, path.removeprefix("/api/v1/")) for path, verbs in paths.items() for verb in verbs}


def test_the_documentation_page_comes_with_its_assets(db: None) -> None:
    answer = Client().get("/api/docs")
    assert answer.status_code == 200
    assert b"https://" not in answer.content.replace(b"https://github.com", b"")


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def served(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Our WSGI application, in the test's transaction: as with Django's own client, no connection is closed."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        answer = application(environ, start_response)
        whole = b"".join(answer)
        answer.close()
        return [whole]
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_input_made_from_the_schema_is_a_server_error(api: People, mode: GenerationMode) -> None:
    """Right and wrong input for every operation: what is answered is documented, and never a 5xx."""
    live = body_of(api.member.post("/workloads", job("live")), 201)["uid"]
    token = {"Authorization": f"Bearer {api.platform.token}"}
    examples = {"uid": live, "name": "red", "team": "red", "pool": "main"}
    cases = 0
    for found in schemathesis.openapi.from_wsgi("/api/v1/schema", served).get_all_operations():
        operation = found.ok()
        known = {name: examples[name] for name in examples if f"{{{name}}}" in operation.path}
        for path in [{}, known] if known else [{}]:

            @settings(
                max_examples=CASES_OF_LOGIN if operation.path.endswith("/login") else CASES,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(mode, path_parameters=path or None))
            def run(case: schemathesis.Case) -> None:
                nonlocal cases
                cases += 1
                case.validate_response(case.call(headers=token), checks=CHECKS)

            run()
    assert cases > 150
    body_of(api.member.get("/workloads"))
