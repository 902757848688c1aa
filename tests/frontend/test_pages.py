from typing import Any

import numpy as np
import pytest
from django.core.cache import cache
from django.test import override_settings
from django.urls import URLPattern

from controlplane.domain.roundview import pack_lineup
from controlplane.models import ClusterState, Membership, RoundView, User, Workload
from controlplane.queries.workloads.whatif import line
from frontend import urls
from scheduler.explain.roundview import Lineup
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Reason
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document

PAGES = (
    "/", "/workloads/", "/queue/", "/map/", "/nodes/", "/gpus/", "/teams/", "/usage/", "/usage/?view=table&group=pool",
    "/cells/", "/notebooks/", "/services/", "/decisions/", "/decisions/rounds/", "/?view=table",
    "/notices/", "/settings/notifications/", "/settings/",
)  # fmt: skip
PARTS = ("tiles", "teams", "objectives", "decisions", "waiting")
TABS = ("why", "timeline", "placement", "logs", "file")


@pytest.mark.parametrize("who", ["admin", "ada", "mel", "vic", "out"])
@pytest.mark.parametrize("page", PAGES)
def test_everyone_signed_in_sees_the_pages(world: World, visit: Visit, who: str, page: str) -> None:
    assert visit(who).get(page).status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_pages_of_an_empty_database_say_what_to_do(bare: World, visit: Visit, page: str) -> None:
    answer = visit("mel").get(page)
    assert answer.status_code == 200
    assert "None" not in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_pages_open_even_before_there_is_any_row(visit: Visit, page: str) -> None:
    User.objects.create_user("first", password="x" * 12)
    assert visit("first").get(page).status_code == 200


def test_nobody_sees_anything_without_signing_in(world: World, visit: Visit) -> None:
    client, w = visit(""), Workload.objects.first()
    assert w is not None
    ids = {"uid": w.pk, "verb": "stop", "name": "tiles", "team": "nlp", "number": 1, "pk": 1, "username": "mel"}
    ids |= {"number_": 1, "pool": "a100"}
    for pattern in urls.urlpatterns:
        assert isinstance(pattern, URLPattern)
        if pattern.name in ("login", "logout", "unsubscribe"):
            continue
        route = str(pattern.pattern)
        for part in (
            "<uuid:uid>",
            "<slug:verb>",
            "<slug:name>",
            "<str:name>",
            "<slug:team>",
            "<int:number>",
            "<int:pk>",
            "<str:username>",
            "<str:team>",
            "<str:pool>",
            "<int:number_>",
        ):
            route = route.replace(part, str(ids[part[1:-1].split(":")[1]]))
        answer = client.get(f"/{route}")
        assert answer.status_code in (302, 401), route
        if answer.status_code == 302:
            assert answer["Location"].startswith("/login/"), route


def test_the_placement_of_a_gang_shows_each_member_with_its_role(world: World, visit: Visit) -> None:
    roles = [{"name": "ps", "resources": {"gpus": 1, "cpu": 1}}]
    w = world.add(document("training", "with-roles", "nlp", roles=roles), Phase.RUNNING)
    w.workers = 2  # the factory places ranks 0 and 1: the server and the worker
    world.place(w, "Bound")
    page = visit("admin").get(f"/workloads/{w.pk}/?tab=placement").content.decode()
    assert "<th>Role</th>" in page
    assert "<td>ps 0</td>" in page
    assert "<td>worker 0</td>" in page


@pytest.mark.parametrize("tab", TABS)
def test_every_phase_has_every_tab(world: World, visit: Visit, tab: str) -> None:
    client = visit("admin")
    seen = {}
    for w in Workload.objects.all():
        seen.setdefault(w.phase, w.pk)
    assert len(seen) >= 10
    for phase, uid in seen.items():
        assert client.get(f"/workloads/{uid}/?tab={tab}").status_code == 200, phase


def test_a_service_shows_how_it_stands(world: World, visit: Visit) -> None:
    chat = Workload.objects.get(name="chat")
    page = visit("mel").get(f"/workloads/{chat.pk}/?tab=objective").content.decode()
    assert "99.00 % within 200 ms" in page
    figure = visit("mel").get(f"/workloads/{chat.pk}/latency").json()
    assert {trace["name"] for trace in figure["data"]} == {"p95", "objective"}


@pytest.mark.parametrize("name", PARTS)
def test_parts_come_alone(world: World, visit: Visit, name: str) -> None:
    answer = visit("mel").get(f"/parts/{name}", headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert "<html" not in answer.content.decode()


@pytest.mark.parametrize("path", ["/workloads/", "/queue/", "/map/", "/nodes/", "/gpus/", "/teams/", "/notebooks/"])
def test_htmx_gets_only_the_part_that_is_swapped(world: World, visit: Visit, path: str) -> None:
    answer = visit("mel").get(path, headers={"HX-Request": "true"})
    assert "<html" not in answer.content.decode()
    assert "HX-Request" in answer["Vary"]


# --- scope ------------------------------------------------------------------------------------


def test_another_teams_workload_does_not_exist(world: World, visit: Visit) -> None:
    chat = Workload.objects.get(name="chat")
    stranger = visit("out")
    for path in (f"/workloads/{chat.pk}/", f"/workloads/{chat.pk}/logs", f"/workloads/{chat.pk}/stop"):
        assert stranger.get(path).status_code == 404
    assert stranger.post(f"/workloads/{chat.pk}/stop").status_code == 404
    assert stranger.get("/workloads/nlp/chat").status_code == 404
    chat.refresh_from_db()
    assert chat.phase == Phase.RUNNING


def test_other_teams_names_appear_on_no_page(world: World, visit: Visit) -> None:
    mine = {w.name for w in Workload.objects.filter(team__name="speech")}
    others = {w.name for w in Workload.objects.exclude(team__name="speech")} - mine
    client = visit("out")
    for page in (*PAGES, *(f"/nodes/{n}/" for n in ("a100-00", "a100-01", "l40s-01"))):
        text = client.get(page).content.decode()
        told = {n for n in others if f"/{n}<" in text or f"/{n} " in text}
        assert not told, page


def test_team_totals_are_for_everyone(world: World, visit: Visit) -> None:
    text = visit("out").get("/").content.decode()
    assert all(f"</i>{team}</a>" in text for team in ("nlp", "vision", "search", "speech"))


def test_a_name_leads_to_the_live_workload(world: World, visit: Visit) -> None:
    chat = Workload.objects.get(name="chat")
    assert visit("mel").get("/workloads/nlp/chat")["Location"] == f"/workloads/{chat.pk}/"
    assert visit("mel").get("/workloads/nlp/chat?tab=events")["Location"] == f"/workloads/{chat.pk}/?tab=events"


def test_a_notebook_shows_its_address_and_how_long_nobody_used_it(world: World, visit: Visit) -> None:
    w = world.add(document("notebook", "plots", "nlp", idle={"park_after": "30m"}), Phase.RUNNING, age=3000)
    page = f"/workloads/{w.pk}/"
    assert "<code>http://plots.weft-nlp.svc:8888</code>" in visit("mel").get(page).content.decode()
    Workload.objects.filter(pk=w.pk).update(idle_since=w.started_at + 60)
    text = visit("mel").get(page).content.decode()
    assert "unused for" in text
    assert "it is parked after 30 min" in text


def queued(client: Any, query: str = "") -> list[tuple[int | None, str]]:
    """Place and name of what the queue page lists."""
    context = client.get(f"/queue/{query}").context
    return [(w.position, w.name) for w in (*context["waiting"], *context["apart"])]


def test_the_queue_is_in_the_order_of_the_next_round(world: World, visit: Visit) -> None:
    expected = [(turn.position, Workload.objects.get(pk=turn.uid).name) for turn in line().turns if turn.position]
    assert len(expected) > 3
    client = visit("admin")
    assert [row for row in queued(client) if row[0] is not None] == expected
    # Another page of the same order, and one team of it, keep the places.
    assert queued(client, "?team=nlp") == [
        row for row in queued(client) if Workload.objects.get(name=row[1]).team.name == "nlp"
    ]


def test_the_queue_says_what_the_next_round_would_say(bare: World, visit: Visit) -> None:
    fits = bare.add(document("training", "fits", "nlp"))
    Workload.objects.filter(pk=fits.pk).update(reason="WaitingForCapacity", message="This was so a minute ago.")
    text = visit("mel").get("/queue/").content.decode()
    assert "It starts in the next round." in text
    assert "a minute ago" not in text


def test_what_is_held_stands_after_the_queue_without_a_place(bare: World, visit: Visit) -> None:
    held = bare.add(document("training", "held", "nlp"))
    Workload.objects.filter(pk=held.pk).update(phase=Phase.HELD)
    bare.add(document("training", "waits", "nlp"))
    assert queued(visit("mel")) == [(1, "waits"), (None, "held")]


def test_nobody_sees_others_places_in_the_queue(world: World, visit: Visit) -> None:
    teams = {Workload.objects.get(name=name).team.name for _, name in queued(visit("out"))}
    assert teams <= {"speech"}


# --- filters ----------------------------------------------------------------------------------


def rows(client: Any, query: str) -> int:
    return int(client.get(f"/workloads/?{query}").context["total"])


def test_filters_narrow_the_list_down(world: World, visit: Visit) -> None:
    client, every = visit("admin"), Workload.objects.all()
    assert rows(client, "") == every.count()
    assert rows(client, "team=nlp") == every.filter(team__name="nlp").count()
    assert rows(client, "type=notebook") == every.filter(kind="notebook").count()
    assert rows(client, "phase=Queued") == every.filter(phase="Queued").count()
    assert rows(client, "phase=waiting") == every.filter(phase__in=("Queued", "Held", "Reserved")).count()
    assert rows(client, "q=bert") == every.filter(name__contains="bert").count()
    assert rows(client, "q=nothing-has-this-name") == 0


def test_pages_of_the_list_show_each_workload_once(bare: World, visit: Visit) -> None:
    for i in range(120):
        bare.add(document("training", f"job-{i}", "nlp"))
    client, url, seen = visit("mel"), "/workloads/", []
    while url:
        context = client.get(url).context
        seen += [w.name for w in context["rows"]]
        url = context["older"]
    assert len(seen) == len(set(seen)) == 120


@pytest.mark.parametrize(
    "query",
    ["before=x", "before=-1", "before=99999999999", "phase=None", "team=%00", "q=%00%ff", "type=🦆", "from=1e9"],
)
def test_odd_urls_are_answered(world: World, visit: Visit, query: str) -> None:
    listed = ("workloads", "queue", "map", "nodes", "usage", "notebooks", "decisions", "decisions/rounds", "services")
    for page in ("/", *(f"/{name}/" for name in listed)):
        assert visit("mel").get(f"{page}?{query}").status_code == 200


# --- acting -----------------------------------------------------------------------------------


def test_an_action_says_what_it_will_do_and_then_does_it(world: World, visit: Visit) -> None:
    chat, client = Workload.objects.get(name="chat"), visit("mel")
    asked = client.get(f"/workloads/{chat.pk}/stop", headers={"HX-Request": "true"}).content.decode()
    assert "Stop chat?" in asked
    assert "1 worker ends" in asked
    answer = client.post(f"/workloads/{chat.pk}/stop", follow=True)
    assert "Stopping chat." in answer.content.decode()
    chat.refresh_from_db()
    assert chat.phase == Phase.STOPPING


def test_a_training_says_what_it_loses(world: World, visit: Visit) -> None:
    w = world.add(document("training", "long", "nlp", checkpoint={"interval": "10m"}), Phase.RUNNING, age=3000)
    asked = visit("mel").get(f"/workloads/{w.pk}/stop").content.decode()
    assert "1 worker loses at most 7 min of work, the time since the last checkpoint." in asked


def test_a_viewer_may_look_and_not_act(world: World, visit: Visit) -> None:
    chat, client = Workload.objects.get(name="chat"), visit("vic")
    assert f"/workloads/{chat.pk}/stop" not in client.get(f"/workloads/{chat.pk}/").content.decode()
    assert client.post(f"/workloads/{chat.pk}/stop").status_code == 403
    assert client.get("/submit/").status_code == 403
    assert ">Submit</a>" not in client.get("/").content.decode()


def test_what_can_be_undone_offers_it(bare: World, visit: Visit) -> None:
    w, client = bare.add(document("training", "job", "nlp")), visit("mel")
    page = client.post(f"/workloads/{w.pk}/suspend", follow=True).content.decode()
    assert f'action="/workloads/{w.pk}/resume"' in page[page.index('class="toast') :]
    client.post(f"/workloads/{w.pk}/resume")
    w.refresh_from_db()
    assert w.phase == Phase.QUEUED


def test_what_the_service_refuses_is_shown(world: World, visit: Visit) -> None:
    ended = Workload.objects.filter(phase="Succeeded", team__name="nlp").first()
    assert ended is not None
    answer = visit("mel").post(f"/workloads/{ended.pk}/suspend", follow=True)
    assert "cannot be suspended" in answer.content.decode()


@pytest.mark.parametrize(
    ("identity", "says"),
    [
        ("demo load=1.2 seed=0", "Simulated cluster "),
        ("philly-model load=1.2 seed=0", "Simulated: model after Microsoft&#x27;s Philly "),
        ("openb load=1.2 seed=0", "Simulated: trace file pods_default.csv "),
        ("/data/my <trace>.csv load=1 seed=3", "Simulated: trace file my &lt;trace&gt;.csv "),
    ],
)
def test_every_page_says_which_work_the_simulated_cluster_runs(
    identity: str, says: str, world: World, visit: Visit
) -> None:
    ClusterState.objects.update(preset=identity)

    assert says in visit("admin").get("/").content.decode()


def test_only_a_platform_admin_pauses_the_clock(world: World, visit: Visit) -> None:
    assert visit("ada").post("/pace", {"paused": "1"}).status_code == 403
    assert "Pause" not in visit("ada").get("/").content.decode()
    visit("admin").post("/pace", {"paused": "1"})
    assert ClusterState.objects.get().paused
    visit("admin").post("/pace", {"paused": "0"})
    assert not ClusterState.objects.get().paused
    assert "Resume" in visit("admin").post("/pace", {"paused": "1"}, headers={"HX-Request": "true"}).content.decode()


def test_a_role_that_ends_takes_the_pages_away_at_once(world: World, visit: Visit) -> None:
    chat, client = Workload.objects.get(name="chat"), visit("mel")
    assert client.get(f"/workloads/{chat.pk}/").status_code == 200
    Membership.objects.filter(user__username="mel").delete()
    assert client.get(f"/workloads/{chat.pk}/").status_code == 404


# --- signing in -------------------------------------------------------------------------------


def test_the_first_page_says_who_can_sign_in(bare: World, visit: Visit) -> None:
    text = visit("").get("/login/").content.decode()
    assert all(f"<b>{name}</b>" in text for name in ("admin", "ada", "mel", "vic"))


def test_a_wrong_password_and_an_unknown_name_read_the_same(bare: World, visit: Visit) -> None:
    texts = set()
    for name in ("mel", "nobody"):
        answer = visit("").post("/login/", {"username": name, "password": "wrong wrong wrong"})
        texts.add(answer.content.decode().replace(name, "X").split('role="alert"')[1].split("</p>")[0])
    assert len(texts) == 1


def test_signing_in_leads_on_and_out_again(bare: World, visit: Visit) -> None:
    client = visit("")
    given = {"username": "mel", "password": "correct horse battery", "next": "/queue/"}
    assert client.post("/login/", given)["Location"] == "/queue/"
    assert client.get("/").status_code == 200
    client.post("/logout/")
    assert client.get("/").status_code == 302


def test_next_never_leads_to_another_site(bare: World, visit: Visit) -> None:
    given = {"username": "mel", "password": "correct horse battery", "next": "https://evil.example/"}
    assert visit("").post("/login/", given)["Location"] == "/"


def test_the_queue_of_a_large_cluster_says_of_when_it_is(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "waits", "nlp"), Phase.QUEUED)
    client = visit("mel")
    assert "As of the last full round" not in client.get("/queue/").content.decode()
    cache.clear()  # what was worked out for the small cluster is kept for five seconds
    with override_settings(DRY_RUN_MOST=0):
        page = client.get("/queue/")
        assert "No round has looked at these workloads yet." in page.content.decode()
        assert [one.name for one in page.context["apart"]] == ["waits"]
        lineup = Lineup(np.array([w.seq]), np.array([0]), (Refusal(Reason.FRAGMENTED, "It is in pieces."),))
        RoundView.objects.create(
            name="schedule",
            cluster_at=NOW - 7,
            every=5,
            lineup=pack_lineup(lineup),
            held=b"",
        )
        page = client.get("/queue/")
        text = page.content.decode()
        assert "As of the last full round" in text
        assert "It is in pieces." in text
        assert [one.position for one in page.context["waiting"]] == [1]


def test_the_dashboard_names_the_teams_that_hold_most_and_leads_to_all(bare: World, visit: Visit) -> None:
    from controlplane.models import NodePool, Quota, Team

    bare.fill(20)
    pool = NodePool.objects.get(name="a100")
    for i in range(30):
        Quota.objects.create(team=Team.objects.create(name=f"small-{i}"), pool=pool, nominal=1000)
    mel, admin = (visit(who).get("/").context for who in ("mel", "admin"))
    assert len(mel["teams"]) == len(admin["teams"]) == 16
    assert mel["teams_total"] == 34
    assert "nlp" in {row.name for row in mel["teams"]}
    assert max(row.held for row in mel["teams"]) == max(row.held for row in admin["teams"])


def test_the_dashboard_lists_what_waits_for_a_place_before_what_waits_for_other_work(bare: World, visit: Visit) -> None:
    for number in range(8):
        later = bare.add(document("training", f"later-{number}", "nlp", priority_class="high"))
        Workload.objects.filter(pk=later.pk).update(reason=("AdmissionGated", "BackoffAfterFailure")[number % 2])
    bare.add(document("training", "now", "nlp", priority_class="low"))
    listed = [row.name for row in visit("admin").get("/").context["waiting"]]
    assert listed[0] == "now"
    assert len(listed) == 6
