"""The loop is killed between any two steps, or paused while another takes over: nothing is lost, nothing done twice."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection, transaction

from controlplane.kubeobjects.names import AUTHOR
from controlplane.kubeobjects.port import Thing
from controlplane.loops import intake
from controlplane.loops.wiring import Wiring
from controlplane.models import Event, Lease, Membership, NodePool, Quota, Role, Team, User, Workload
from tests.controlplane.intake.conftest import ANA, ROOT, Kube, team, workload
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Shelf:
    """The port `Objects` without a cluster: it takes every status, and can be told to end the process."""

    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 0
    calls_left: int = 10**9
    meanwhile: Callable[[], None] = lambda: None

    def put(self, thing: dict[str, Any], user: str) -> None:
        """Make or change an object."""
        name = thing["metadata"]["name"]
        before = self.things.get(
            name, {"metadata": {"generation": 0, "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name))}}
        )
        self.version += 1
        meta = {
            **before["metadata"],
            **thing["metadata"],
            "annotations": {AUTHOR: user},
            "generation": before["metadata"]["generation"] + 1,
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        self.things[name] = {**thing, "metadata": meta, "status": before.get("status", {})}

    def drop(self, name: str) -> None:
        """An object is deleted."""
        self.version += 1
        del self.things[name]

    def are_there(self) -> bool:
        return self._step(True)

    def are_fenced(self) -> bool:
        self.meanwhile()  # when the rows have been read, and before anything is written
        return self._step(True)

    def number(self) -> int:
        return self._step(self.version)

    def all(self) -> tuple[Thing, ...]:
        return self._step(tuple(Thing(one) for one in self.things.values()))

    def check(self) -> None:
        self._step(None)

    def write(self, statuses: Sequence[tuple[Thing, Mapping[str, Any]]]) -> int:
        missed = 0
        for thing, status in statuses:
            self._step(None)
            one = self.things[thing.name]
            if one["metadata"]["resourceVersion"] != thing.body["metadata"]["resourceVersion"]:
                missed += 1
                continue
            self.version += 1
            meta = {**one["metadata"], "resourceVersion": str(self.version)}
            self.things[thing.name] = {**one, "metadata": meta, "status": dict(status)}
        return missed

    def on_news(self, tell: Callable[[], None]) -> None:
        """No thread of its own, no news."""

    def _step(self, answer: Any) -> Any:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Killed
        return answer


@contextmanager
def killed_at(statement: int) -> Iterator[list[int]]:
    """End the process before this statement; tells how many there were."""
    count = [0]

    def before(execute: Any, sql: str, *rest: Any) -> Any:
        count[0] += 1
        if count[0] == statement + 1:  # once: what follows is the database, which undoes what was not committed
            raise Killed
        return execute(sql, *rest)

    with connection.execute_wrapper(before):
        yield count


@pytest.fixture
def world(settings: Any) -> World:
    settings.KUBERNETES_USER_PREFIX = "oidc:"
    found = World()
    Membership.objects.create(
        user=User.objects.create(username="ana"), team=Team.objects.get(name="red"), role=Role.MEMBER
    )
    User.objects.create(username="root", is_superuser=True)
    NodePool.objects.create(name="a100")
    return found


def begin(world: World) -> tuple[Shelf, Wiring]:
    """Two objects that are followed, and then in one moment: one new, one changed, one gone, a team made."""
    shelf = Shelf()
    wiring = Wiring(world.cluster, world.metrics, "test", objects=shelf)
    shelf.put(workload("changed"), ANA)
    shelf.put(workload("gone"), ANA)
    intake.run_once(wiring)
    shelf.put(workload("changed", maxDuration="2h", suspend=True), ANA)
    shelf.put(workload("new"), ANA)
    shelf.put(team("nlp", parent="red", quotas=[{"pool": "a100", "nominalMilli": 8000}]), ROOT)
    shelf.drop("gone")
    return shelf, wiring


def outcome(shelf: Shelf) -> Any:
    rows = Workload.objects.order_by("name").values_list("pk", "name", "phase", "max_seconds", "created_by__username")
    teams = Team.objects.order_by("name").values_list("name", "parent__name", "managed_by")
    events = sorted(Event.objects.exclude(kind="NodeSeen").values_list("kind", "name", "team", "actor"))
    quotas = list(Quota.objects.values_list("team__name", "nominal", "version"))
    conditions = {
        name: [(one["type"], one["status"], one["reason"], one["message"]) for one in thing["status"]["conditions"]]
        for name, thing in sorted(shelf.things.items())
    }
    return list(rows), list(teams), events, quotas, conditions


def follow(shelf: Shelf, wiring: Wiring) -> Any:
    """What comes of it in a process of its own, until nothing is left to do."""
    again = Wiring(wiring.cluster, wiring.metrics, "test", objects=shelf)
    for _ in range(4):
        assert not intake.run_once(again).skipped
    return outcome(shelf)


def undisturbed(world: World) -> tuple[Any, int, int]:
    """What comes of it, in how many statements and calls; undone afterwards."""
    sid = transaction.savepoint()
    shelf, wiring = begin(world)
    shelf.calls_left = 1000
    with killed_at(-1) as count:
        intake.run_once(wiring)
    calls = 1000 - shelf.calls_left
    shelf.calls_left = 10**9
    expected = follow(shelf, wiring)
    transaction.savepoint_rollback(sid)
    return expected, count[0], calls


EVERY = 3  # statements; the other two thirds are for the night


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, EVERY))])
def test_killed_before_any_statement_it_goes_on_as_if_nothing_had_been(world: World, first: int) -> None:
    expected, statements, _ = undisturbed(world)
    assert statements > 50
    rows, teams, _, quotas, conditions = expected
    assert [(name, phase) for _, name, phase, *_ in rows] == [
        ("changed", "Held"),
        ("gone", "Stopped"),
        ("new", "Queued"),
    ]
    assert ("nlp", "red", "teams.weft.dev") in teams
    assert quotas == [("nlp", 8000, 1)]
    assert {told[0][1] for told in conditions.values()} == {"True"}
    for number in range(first, statements, EVERY):
        sid = transaction.savepoint()
        shelf, wiring = begin(world)
        with pytest.raises(Killed), killed_at(number):
            intake.run_once(wiring)
        assert follow(shelf, wiring) == expected, f"killed before statement {number}"
        transaction.savepoint_rollback(sid)


def test_killed_before_any_call_to_the_cluster_it_goes_on_as_if_nothing_had_been(world: World) -> None:
    expected, _, calls = undisturbed(world)
    assert calls > 5
    for number in range(calls):
        sid = transaction.savepoint()
        shelf, wiring = begin(world)
        shelf.calls_left = number
        with pytest.raises(Killed):
            intake.run_once(wiring)
        shelf.calls_left = 10**9
        assert follow(shelf, wiring) == expected, f"killed before call {number}"
        transaction.savepoint_rollback(sid)


def taken_over() -> None:
    """The lease has run out while its holder was paused."""
    Lease.objects.filter(name=intake.LOOP).update(holder="")


def test_one_that_was_paused_writes_nothing_any_more(world: World) -> None:
    shelf = Shelf()
    shelf.put(workload("job"), ANA)
    first = Wiring(world.cluster, world.metrics, "first", objects=shelf)
    second = Wiring(world.cluster, world.metrics, "second", objects=shelf)

    def other() -> None:
        shelf.meanwhile = lambda: None
        taken_over()
        assert not intake.run_once(second).skipped

    shelf.meanwhile = other
    assert intake.run_once(first).skipped == "the lease was lost"
    assert Workload.objects.count() == 1
    assert Event.objects.filter(kind="Submitted").count() == 1
    assert intake.run_once(first).is_standby


def test_a_status_of_one_that_was_paused_is_refused_by_the_server(kube: Kube) -> None:
    kube.apply(workload())
    kube.objects.check()
    (stale,) = [one for one in kube.objects.all() if one.name == "hello"]
    kube.settle()
    told = kube.get("hello")["status"]
    assert kube.objects.write([(stale, {"phase": "Succeeded"})]) == 1
    assert kube.get("hello")["status"] == told


def test_the_loop_does_nothing_and_asks_nothing_without_a_kubernetes(world: World) -> None:
    wiring = Wiring(world.cluster, world.metrics, "test")
    with killed_at(-1) as count:
        assert intake.run_once(wiring).did == 0
    first = count[0]
    with killed_at(-1) as count:
        assert intake.run_once(wiring).did == 0
    assert (first > 0, count[0]) == (True, 0)  # the lease, and then not even that
