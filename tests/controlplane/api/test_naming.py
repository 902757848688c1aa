"""Other teams' workloads are counted, never named: in every answer, stream, note, webhook, notice and mail."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from controlplane.api import feed as hub
from controlplane.loops import publish, schedule
from controlplane.models import Cycle, Event, Notice, Token, User, Workload
from controlplane.outgoing.payload import Said
from controlplane.queries.accounts.viewers import Viewer
from controlplane.queries.audit import feed, naming
from controlplane.queries.notifications import subscriptions
from controlplane.queries.notifications.event_types import Found
from controlplane.queries.notifications.subscriptions import Rule
from controlplane.services.notifications.deliveries import Claimed
from scheduler.model.mention import MENTION, mention
from tests.controlplane.api.conftest import Caller, People, body_of, people

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[3]
BLUES = "caerulea"
PAGES = (
    "/", "/workloads/", "/queue/", "/decisions/", "/decisions/rounds/", "/map/", "/nodes/a/", "/usage/",
    "/search?q=cae",
    "/parts/decisions", "/parts/waiting", "/notices/",
)  # fmt: skip
TABS = ("why", "timeline", "events", "placement", "file")


@pytest.fixture
def api() -> People:
    """Blue takes back what red has borrowed: red's work makes room for blue's, and waits behind it."""
    found = people()
    world = found.world
    for name in ("rubra-one", "rubra-two"):
        world.run(world.submit(name, gpus=8), "a" if name.endswith("one") else "b")
    world.later(24 * 3600.0)
    world.submit(f"{BLUES}-claim", team="blue", gpus=8)
    world.submit("rubra-three", gpus=8)
    world.submit("rubra-four", gpus=8)
    world.observe()
    report = schedule.run_once(world.wiring)
    assert not report.skipped
    return found


def victim() -> Workload:
    return Workload.objects.get(pk=Event.objects.get(kind="Evicted").workload)


def session(who: Caller) -> Client:
    client = Client()
    assert who.user is not None
    client.force_login(who.user)
    return client


def answers(who: Caller) -> Iterator[tuple[str, str]]:
    """All that is shown of red's work, by REST and on pages: (address, text)."""
    browser, number = session(who), Cycle.objects.latest("pk").pk
    for address in ("/workloads", "/queue", "/trainings", "/notices", "/nodes"):
        yield address, who.get(address).content.decode()
    for w in Workload.objects.filter(team__name="red"):
        for end in ("", "/events", "/explanation", "/decisions", "/placement"):
            yield f"{w.name}{end}", who.get(f"/workloads/{w.pk}{end}").content.decode()
        for tab in TABS:
            yield f"{w.name} {tab}", browser.get(f"/workloads/{w.pk}/?tab={tab}").content.decode()
        yield f"{w.name} head", browser.get(f"/workloads/{w.pk}/?part=head").content.decode()
    for address in (*PAGES, f"/decisions/rounds/{number}/"):
        answer = browser.get(address)
        assert answer.status_code == 200, address
        yield address, answer.content.decode()


def test_whoever_may_not_see_it_reads_of_another_workload(api: People) -> None:
    taken = victim()
    told = dict(answers(api.viewer))
    assert not [address for address, text in told.items() if BLUES in text]
    assert not [address for address, text in told.items() if "[[w:" in text]
    assert "back to team blue for another workload" in told[f"{taken.name}/events"]
    assert "back to team blue for another workload" in told[f"{taken.name} events"]
    assert "back to team blue for another workload" in told["/decisions/"]


def test_whoever_may_see_it_reads_its_name(api: People) -> None:
    taken = victim()
    told = dict(answers(api.platform))
    assert f"back to team blue for blue/{BLUES}-claim" in told[f"{taken.name}/events"]
    assert f"back to team blue for blue/{BLUES}-claim" in told["/decisions/"]
    assert not [address for address, text in told.items() if "[[w:" in text]


def test_a_token_of_one_team_sees_the_names_of_that_team_only(api: People) -> None:
    api.platform.client = Client()
    red = Token.objects.get(user=api.platform.user)
    red.team_id = Workload.objects.filter(team__name="red").values_list("team_id", flat=True)[0]
    red.save()
    text = api.platform.get(f"/workloads/{victim().pk}/events").content.decode()
    assert "for another workload" in text
    assert BLUES not in text


def test_one_team_is_named_and_the_other_counted_in_one_sentence(api: People) -> None:
    red, blue = (Workload.objects.filter(team__name=team).first() for team in ("red", "blue"))
    assert red is not None
    assert blue is not None
    Workload.objects.filter(pk=red.pk).update(message=f"Kept for {mention(str(red.pk), str(blue.pk))}.")
    assert body_of(api.viewer.get(f"/workloads/{red.pk}"))["message"] == f"Kept for red/{red.name} and 1 more."
    assert body_of(api.platform.get(f"/workloads/{red.pk}"))["message"] == (
        f"Kept for red/{red.name} and blue/{blue.name}."
    )


def test_a_mention_that_somebody_wrote_tells_them_nothing(api: People) -> None:
    """A label, a message of an exit or a name of a view may hold anything."""
    blue, red = Workload.objects.get(name=f"{BLUES}-claim"), victim()
    Workload.objects.filter(pk=red.pk).update(message=f"exit {mention(str(blue.pk))} [[w:<script>]] [[w:{'x' * 90}]]")
    assert body_of(api.viewer.get(f"/workloads/{red.pk}"))["message"] == (
        "exit another workload another workload another workload"
    )


def test_a_stream_tells_each_reader_what_they_may_see(api: People) -> None:
    evicted = next(one for one in feed.between(0, feed.newest(), feed.Scope(None)) or () if one.kind == "Evicted")
    assert naming.told(evicted.message, evicted.mentions, frozenset({"red"})).endswith("blue for another workload.")
    assert naming.told(evicted.message, evicted.mentions, None).endswith(f"blue for blue/{BLUES}-claim.")


def first_event() -> int:
    """The number of this test's first event: Postgres goes on counting from test to test."""
    return Event.objects.order_by("pk").values_list("pk", flat=True)[0]


def test_what_a_stream_has_to_tell_again_is_without_other_teams_names(api: People) -> None:
    at = f"/workloads/{victim().pk}/watch"  # all streams tell by the same function
    before = str(first_event())
    answer = api.viewer.get(at, last_event_id=before)
    assert answer.streaming, answer.content
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    assert "for another workload" in text
    assert BLUES not in text
    assert "[[w:" not in text
    text = b"".join(api.platform.get(at, last_event_id=before).streaming_content).decode()  # type: ignore[attr-defined]
    assert f"for blue/{BLUES}-claim" in text


def test_an_inbox_is_given_events_with_what_they_mention(api: People) -> None:
    """What the thread of the feed does for streams that go on."""
    reader = feed.Reader()
    reader.last = first_event()
    inbox = hub.Inbox(Viewer(1, None, None, ()), feed.Scope(frozenset({"red"})), reader.last)
    for event in reader.read():
        inbox.put(event)
    (evicted,) = (one for one in inbox.told if one.kind == "Evicted")
    assert [name for _, name in evicted.mentions.values()] == [f"blue/{BLUES}-claim"]


def test_the_cluster_is_told_without_other_teams_names(api: People) -> None:
    world = api.world
    world.wiring.kept["published"] = 0
    publish.run_once(world.wiring)
    said = [note.message for note in world.cluster.told]
    assert any("for another workload" in message for message in said)
    assert not [message for message in said if BLUES in message or "[[w:" in message]


def _addressed(api: People) -> list[Any]:
    evicted = Event.objects.get(kind="Evicted")
    said = Said("k", "preempted", "red", "made room", evicted.message, 0.0, "/", evicted.workload)
    rule = {"matter": "preempted", "by_mail": False, "after_event": 0, "format": "weft"}
    hook = Workload.objects.values_list("uid", flat=True)[0]
    assert api.viewer.user is not None
    return [
        one.said.message
        for one in subscriptions.addressed(
            [Found(said)],
            [
                Rule(1, team="red", user=None, username="", webhook=hook, **rule),
                Rule(2, team="red", user=api.viewer.user.pk, username="vera", webhook=None, **rule),
            ],
        )
    ]


def test_a_webhook_of_a_team_is_sent_no_other_teams_names(api: People) -> None:
    of_hook, _ = _addressed(api)
    assert of_hook.endswith("back to team blue for another workload.")


def test_a_notice_is_kept_with_mentions_and_read_with_names(api: People) -> None:
    _, of_notice = _addressed(api)
    assert [*MENTION.findall(of_notice)] == [str(Workload.objects.get(name=f"{BLUES}-claim").pk)]
    for who in (api.viewer, api.platform):
        given = {"key": "k", "matter": "preempted", "team": "red", "title": "made room", "message": of_notice}
        Notice.objects.create(user=who.user, cluster_at=0.0, at=Event.objects.latest("pk").at, **given)
    (notice,) = body_of(api.viewer.get("/notices"))["results"]
    assert notice["message"].endswith("for another workload.")
    (notice,) = body_of(api.platform.get("/notices"))["results"]
    assert notice["message"].endswith(f"for blue/{BLUES}-claim.")


def test_a_mail_has_the_names_that_its_reader_may_see_when_it_is_sent(api: People) -> None:
    from controlplane.loops import notify
    from controlplane.outgoing.mail import Mail

    message = Event.objects.get(kind="Evicted").message
    uid = Workload.objects.values_list("uid", flat=True)[0]
    readers = [User.objects.get(username=name).pk for name in ("vera", "root")]
    mails = [Claimed(uid, 1, mail=Mail("d", "a@example.test", "t", message, "/", None), reader=one) for one in readers]
    vera, root = (one.mail.message if one.mail else "" for one in notify.as_read(mails))
    assert vera.endswith("for another workload.")
    assert root.endswith(f"for blue/{BLUES}-claim.")


# Every sentence of the product that has a name in it, and whose name that is. Rows, events and notices are read by all
# who may see the workload they are about, so they may name it, its own team's and what has no secret name. Another
# workload is told of with `mention(uid)` (scheduler/model/mention.py). The cores read no names (tests/scheduler).
ITSELF, ASKED, TEAM, OTHER_THING = "the workload it is about", "given in the request", "a team", "no workload"
WHOSE = {
    ("loops/lease", "name"): OTHER_THING,
    ("queries/tenancy/platform", "name"): OTHER_THING,
    ("services/cells/rearranging", "cell.name"): OTHER_THING,
    ("loops/threads", "name"): OTHER_THING,
    ("loops/threads", "self.name"): OTHER_THING,
    ("loops/scalers/autoscalers", "owner.name"): ITSELF,
    ("loops/scalers/natives", "owner.name"): ITSELF,
    ("services/intake/natives", "name"): "what wrote a field of its Kubernetes object",
    ("loops/intaking", "author.name"): "a user",
    ("loops/intaking", "workload.name"): ITSELF,
    ("queries/accounts/kubernetes_users", "name"): "a user",
    ("queries/accounts/kubernetes_users", "name.name"): "a user",
    ("queries/notifications/event_types", "name"): ITSELF,
    ("queries/notifications/event_types", "row.name"): ITSELF,
    ("queries/audit/naming", "name"): "filled in for a reader who may see it",
    ("queries/reports/sla", "name"): OTHER_THING,
    ("queries/workloads/suggestions", "workload.name"): ITSELF,
    ("queries/workloads/reallocated", "workload.name"): ITSELF,
    ("queries/workloads/search", "w.name"): "found among what the reader may see",
    ("queries/workloads/search", "w.team.name"): TEAM,
    ("queries/workloads/worklist", "name"): OTHER_THING,
    ("services/workloads/amending", "name"): OTHER_THING,
    ("services/workloads/amending", "row.name"): ITSELF,
    ("services/workloads/transitions", "row.name"): ITSELF,
    ("services/scheduling/revising", "row.name"): ITSELF,
    ("services/training/changing", "workload.name"): ITSELF,
    ("services/training/moving", "row.name"): ITSELF,
    ("services/audit/auditlog", "name"): OTHER_THING,
    ("services/notifications/deliveries", "row.name"): "a webhook",
    ("services/notifications/deliveries", "webhook.name"): "a webhook",
    ("services/workloads/dependencies", "one.name"): ASKED,
    ("services/accounts/endings", "one.name"): OTHER_THING,
    ("services/accounts/endings", "team.name"): TEAM,
    ("services/workloads/feasibility", "require.name"): OTHER_THING,
    ("services/accounts/members", "membership.team.name"): TEAM,
    ("services/accounts/members", "team.name"): TEAM,
    ("services/audit/grants", "name"): OTHER_THING,
    ("services/intake/ownership", "workload.name"): ITSELF,
    ("services/intake/teams", "name"): TEAM,
    ("services/workloads/idle", "workload.name"): ITSELF,
    ("services/scheduling/leases", "self.name"): OTHER_THING,
    ("services/scheduling/nodes", "name"): "a node",
    ("services/scheduling/policy", "name"): OTHER_THING,
    ("services/tenancy/quotas", "name"): OTHER_THING,
    ("services/tenancy/quotas", "pool.name"): OTHER_THING,
    ("services/workloads/suggestions", "workload.name"): ITSELF,
    ("services/accounts/service_accounts", "name"): "a service account",
    ("services/workloads/resizing", "row.name"): ITSELF,
    ("services/workloads/submission", "name"): ASKED,
    ("services/workloads/submission", "workload.name"): ITSELF,
    ("services/tenancy/teams", "name"): TEAM,
    ("services/workloads/templates", "name"): "a template",
    ("services/workloads/templates", "team.name"): TEAM,
    ("services/workloads/templates", "template.name"): "a template",
    ("services/workloads/admission", "name"): ASKED,
    ("services/accounts/tokens", "token.name"): "a token",
    ("services/notifications/webhooks", "name"): "a webhook",
}


def test_each_sentence_with_a_name_says_whose_it_is() -> None:
    """A new one needs its line above: whose name, and why all who read the sentence may know it."""
    found = {
        (str(path.relative_to(ROOT / "controlplane").with_suffix("")), name)
        for part in ("services", "queries", "loops")
        for path in sorted((ROOT / "controlplane" / part).rglob("*.py"))
        for text in ast.walk(ast.parse(path.read_text()))
        if isinstance(text, ast.JoinedStr)
        for name in _names_in(text)
    }
    assert found == WHOSE.keys()


def _names_in(text: ast.JoinedStr) -> Iterator[str]:
    for value in text.values:
        if isinstance(value, ast.FormattedValue):
            for node in ast.walk(value.value):
                is_attribute = isinstance(node, ast.Attribute) and node.attr == "name"
                if is_attribute or (isinstance(node, ast.Name) and node.id in ("name", "names")):
                    yield ast.unparse(node)
