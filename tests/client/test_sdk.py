"""The SDK: pages, names, waiting and logs."""

from collections.abc import Iterator

import pytest

from tests.client.scripted import Answer, Scripted, page, problem, workload
from weft import Client, Retries, WaitTimeout, Workload
from weft.errors import NotFound, WeftError

QUICK = Retries(first=0.01, most=0.02)


@pytest.fixture
def client(server: Scripted) -> Iterator[Client]:
    with Client(server.url, "weft_secret", timeout=5, retries=QUICK) as opened:
        yield opened


def at(document: dict[str, object]) -> str:
    return f"/workloads/{document['uid']}"


def test_the_token_is_sent_as_a_bearer(server: Scripted, client: Client) -> None:
    server.on("GET", "/me", {"username": "mel"})
    client.whoami()
    assert server.requests[0].headers["authorization"] == "Bearer weft_secret"


def test_an_answer_keeps_fields_that_this_client_does_not_know(server: Scripted, client: Client) -> None:
    given = workload(colour="green")
    server.on("GET", at(given), given)
    read = client.read(given["uid"])
    assert (read.path, read.document["colour"]) == ("nlp/hello", "green")


def test_a_list_goes_on_through_all_pages(server: Scripted, client: Client) -> None:
    more = "http://inner.host:1/api/v1/workloads?cursor=abc%3D&page_size=200"
    server.on("GET", "/workloads", page(workload("a"), workload("b"), next=more), page(workload("c")))
    assert [one.name for one in client.list(team="nlp")] == ["a", "b", "c"]
    first, second = (dict(one.query) for one in server.requests)
    assert first == {"team": "nlp", "page_size": "200"}
    assert second == {**first, "cursor": "abc="}


def test_a_limit_asks_for_no_more_than_it_needs(server: Scripted, client: Client) -> None:
    server.on("GET", "/workloads", page(workload("a"), workload("b"), next="http://x/?cursor=1"))
    assert [one.name for one in client.list(limit=2)] == ["a", "b"]
    assert [one.query["page_size"] for one in server.requests] == ["2"]


def test_a_list_that_stops_growing_ends(server: Scripted, client: Client) -> None:
    server.on("GET", "/workloads", page(next="http://x/?cursor=1"))
    assert list(client.list()) == []


def test_a_name_means_the_live_workload(server: Scripted, client: Client) -> None:
    live = workload(phase="Running")
    server.on("GET", "/workloads", page(live))
    server.on("GET", at(live), live)
    assert client.get("nlp/hello").phase == "Running"
    query = server.requests[0].query
    assert (query["team"], query["name"]) == ("nlp", "hello")
    assert "Running" in query["phase"].split(",")
    assert "Succeeded" not in query["phase"].split(",")


def test_a_name_without_a_live_workload_means_the_newest_that_ended(server: Scripted, client: Client) -> None:
    newer, older = workload(phase="Failed", attempt=2), workload(phase="Succeeded", attempt=1)
    server.on("GET", "/workloads", page(), page(newer, older))
    assert client.find("hello").uid == newer["uid"]


def test_a_name_of_several_teams_is_not_guessed(server: Scripted, client: Client) -> None:
    server.on("GET", "/workloads", page(workload(team="nlp"), workload(team="vision")))
    with pytest.raises(WeftError, match="Write nlp/hello or vision/hello"):
        client.find("hello")


def test_a_uid_is_read_at_once(server: Scripted, client: Client) -> None:
    given = workload()
    server.on("GET", at(given), given)
    assert client.get(given["uid"]).name == "hello"
    assert len(server.requests) == 1


def test_a_name_that_is_nowhere_is_not_found(server: Scripted, client: Client) -> None:
    server.on("GET", "/workloads", page())
    with pytest.raises(NotFound, match="There is no workload hello in team nlp"):
        client.find("hello", team="nlp")


def test_several_jobs_are_one_request(server: Scripted, client: Client) -> None:
    server.on("POST", "/workloads:batch", Answer({"results": [workload("a"), workload("b")]}, 201))
    assert [one.name for one in client.submit_all([{"name": "a"}, {"name": "b"}])] == ["a", "b"]
    [request] = server.requests
    assert request.body == [{"name": "a"}, {"name": "b"}]
    assert request.headers["idempotency-key"]


def test_an_action_on_several_is_one_request_that_says_of_each_what_came_of_it(
    server: Scripted, client: Client
) -> None:
    a, refusal = workload("a"), {"status": 409, "code": "WrongPhase", "field": "phase", "message": "b has ended."}
    told = [
        {"uid": a["uid"], "is_done": True, "refusal": None, "workload": a},
        {"uid": "b", "is_done": False, "refusal": refusal, "workload": None},
    ]
    server.on("POST", "/workloads:act", {"results": told})
    done, refused = client.act("suspend", [a["uid"], "b"])
    assert (done.is_done, done.workload, refused.is_done, refused.refusal) == (True, a, False, refusal)
    client.act("priority", ["b"])
    bodies = [request.body for request in server.requests]
    assert bodies[0] == {"verb": "suspend", "uids": [a["uid"], "b"]}
    assert bodies[1] == {"verb": "priority", "uids": ["b"], "priority_class": None}


def test_waiting_ends_with_the_workload(server: Scripted, client: Client) -> None:
    phases = [workload(phase=phase) for phase in ("Queued", "Running", "Succeeded")]
    server.on("GET", at(phases[0]), *phases)
    assert client.wait(phases[0]["uid"], timeout=20).phase == "Succeeded"


def test_waiting_for_running_ends_when_it_runs(server: Scripted, client: Client) -> None:
    phases = [workload(phase=phase) for phase in ("Queued", "Running")]
    server.on("GET", at(phases[0]), *phases)
    assert client.wait(phases[0]["uid"], until="running", timeout=20).phase == "Running"


def test_waiting_bears_a_server_that_is_away(server: Scripted, client: Client) -> None:
    one = workload(phase="Succeeded")
    server.on("GET", at(one), *[problem(503, "Unavailable")] * 6, one)
    assert client.wait(one["uid"], timeout=20).phase == "Succeeded"


def test_waiting_ends_at_its_time(server: Scripted, client: Client) -> None:
    one = workload()
    server.on("GET", at(one), one)
    with pytest.raises(WaitTimeout, match=r"nlp/hello is still Queued after 0\.3 s\. It continues to run"):
        client.wait(one["uid"], timeout=0.3)


def test_waiting_does_not_bear_a_lost_right(server: Scripted, client: Client) -> None:
    one = workload()
    server.on("GET", at(one), one, problem(404, "NotFound"))
    with pytest.raises(NotFound):
        client.wait(one["uid"], timeout=20)


def test_the_same_values_come_from_the_package_and_its_face() -> None:
    from weft import answers

    assert Workload is answers.Workload
