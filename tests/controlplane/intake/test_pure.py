"""Verdicts, conditions and definitions, without a server."""

from typing import Any

import pytest

from controlplane.kubeobjects import crd, review, status
from controlplane.kubeobjects.names import AUTHOR, TEAM, camel
from controlplane.kubeobjects.review import CREATE, DELETE, UPDATE, Author
from controlplane.kubeobjects.status import Seen, Told, Verdict
from controlplane.queries.accounts import access
from scheduler.model.workload import ENDED, Phase
from tests.controlplane.intake.conftest import team, workload

RED = frozenset({"red"})
MEMBER = Author("oidc:ana", "ana", sees=RED, submits=RED, acts=RED)
VIEWER = Author("oidc:vic", "vic", sees=RED)
BOSS = Author("oidc:bea", "bea", sees=RED, submits=RED, acts=RED, changes=RED)
OTHER = Author("oidc:ben", "ben", sees=frozenset({"blue"}), submits=frozenset({"blue"}))
UNKNOWN = Author("oidc:x", unknown="Sign in once.")
ROOT = Author("oidc:root", "root", is_admin=True)
NO_TEAM, LOW_ROLE = access.NO_TEAM.format(team="red"), access.LOW_ROLE.format(team="red")


def asked(operation: str, author: Author, thing: Any, old: Any = None, submitter: str = "") -> str:
    return review.review(operation, thing, old, author, prefix="weft-", submitter=submitter)


@pytest.mark.parametrize(
    ("author", "said"),
    [(MEMBER, ""), (BOSS, ""), (ROOT, ""), (VIEWER, LOW_ROLE), (OTHER, NO_TEAM), (UNKNOWN, "Sign in once.")],
)
def test_who_may_make_and_delete_a_workload(author: Author, said: str) -> None:
    assert asked(CREATE, author, workload()) == said
    assert asked(DELETE, author, workload()) == said


def test_ones_own_is_changed_and_that_of_others_by_their_admin() -> None:
    old, new = workload(), workload(maxDuration="1h")
    assert asked(UPDATE, MEMBER, new, old, "ana") == ""
    assert asked(UPDATE, MEMBER, new, old, "bea") == LOW_ROLE
    assert asked(UPDATE, BOSS, new, old, "ana") == ""
    assert asked(UPDATE, MEMBER, workload(suspend=True), old, "bea") == ""


def test_what_leaves_the_spec_alone_asks_nobody() -> None:
    labelled = workload()
    labelled["metadata"]["labels"] = {"a": "b"}
    assert asked(UPDATE, UNKNOWN, labelled, workload()) == ""
    assert not review.must_be_stamped(UPDATE, labelled, workload())
    assert review.must_be_stamped(UPDATE, workload(suspend=True), workload())


def test_kubernetes_own_controllers_clean_a_namespace_up() -> None:
    controller = Author("system:serviceaccount:kube-system:namespace-controller", unknown="No.")
    assert asked(DELETE, controller, workload()) == ""
    assert asked(CREATE, controller, workload()) == "No."


def test_a_namespace_of_no_team_is_refused_but_may_be_cleaned_up() -> None:
    thing = workload()
    thing["metadata"]["namespace"] = "default"
    assert "Namespace default is no team's." in asked(CREATE, ROOT, thing)
    assert asked(DELETE, MEMBER, thing) == ""


def test_teams_are_for_platform_admins() -> None:
    for operation in (CREATE, DELETE):
        assert "bea is no platform admin of Weft" in asked(operation, BOSS, team("nlp"))
        assert asked(operation, ROOT, team("nlp")) == ""
    assert "quotas.0.nominal_milli is missing" in asked(CREATE, ROOT, team("nlp", quotas=[{"pool": "a"}]))


def test_the_author_is_noted_beside_other_annotations() -> None:
    thing = workload()
    thing["metadata"]["annotations"] = {"a": "b", AUTHOR: "forged"}
    assert review.stamped(thing, "oidc:ana")["metadata"]["annotations"] == {"a": "b", AUTHOR: "oidc:ana"}
    assert thing["metadata"]["annotations"][AUTHOR] == "forged"


# --- conditions -----------------------------------------------------------------------------------


def seen(phase: Phase, **changes: Any) -> Seen:
    values: dict[str, Any] = {
        "phase": phase, "reason": "", "message": "", "attempt": 1, "exit_code": None, "gpus": 2500, "running": 0,
        "workers": 1, "submitted_at": 0.0, "started_at": None, "ended_at": None,
    }  # fmt: skip
    return Seen(**(values | changes))


@pytest.mark.parametrize("phase", list(Phase))
def test_in_each_phase_each_condition_is_true_or_false_with_a_reason(phase: Phase) -> None:
    made = status.of_workload(seen(phase), Verdict(), Told(3, 60.0, {}))
    told = {one["type"]: one["status"] == "True" for one in made["conditions"]}
    assert list(told) == ["Accepted", "Admitted", "Running", "Finished"]
    assert told["Finished"] == (phase in ENDED)
    assert not (told["Running"] and not told["Admitted"])
    assert not (told["Admitted"] and told["Finished"])
    assert all(one["reason"] and one["observedGeneration"] == 3 for one in made["conditions"])
    assert made["gpus"] == "2.5"


def test_since_when_a_condition_is_so_stays_as_long_as_it_is() -> None:
    first = status.of_workload(seen(Phase.QUEUED), Verdict(), Told(1, 60.0, {}))
    second = status.of_workload(seen(Phase.RUNNING), Verdict(), Told(2, 120.0, first))
    since = {one["type"]: one["lastTransitionTime"] for one in second["conditions"]}
    assert since == {
        "Accepted": "1970-01-01T00:01:00Z", "Admitted": "1970-01-01T00:02:00Z",
        "Running": "1970-01-01T00:02:00Z", "Finished": "1970-01-01T00:01:00Z",
    }  # fmt: skip


def test_only_sentences_about_waiting_count_as_words() -> None:
    def waiting(message: str, phase: Phase = Phase.QUEUED) -> dict[str, Any]:
        told = Told(1, 60.0, {})
        return status.without_words(status.of_workload(seen(phase, message=message), Verdict(), told))

    assert waiting("3 go first.") == waiting("2 go first.")
    assert waiting("Stopped by a.", Phase.STOPPED) != waiting("Stopped by b.", Phase.STOPPED)


# --- definitions ----------------------------------------------------------------------------------


def test_each_field_of_the_job_file_is_in_the_definition_with_its_sentence() -> None:
    spec = crd.definitions()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"].keys() == {camel(field.name) for field in crd.fields()} | {"suspend"}
    assert all(one["description"] for one in spec["properties"].values())
    assert spec["required"] == ["type", "resources"]
    assert {"name", "team"} & spec["properties"].keys() == set()


def test_both_kinds_have_names_of_their_own() -> None:
    one, other = crd.definitions()
    assert (one["metadata"]["name"], other["metadata"]["name"]) == ("workloads.weft.dev", "teams.weft.dev")
    assert (one["spec"]["scope"], other["spec"]["scope"]) == ("Namespaced", "Cluster")
    assert other["spec"]["names"]["kind"] == TEAM
