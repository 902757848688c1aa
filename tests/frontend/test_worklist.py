"""The list of workloads: order, pages both ways, saved views, and one action on several."""

from typing import Any
from urllib.parse import quote

import pytest

from controlplane.models import AuditEntry, SavedView, Workload
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document


def names(client: Any, url: str) -> list[str]:
    return [w.name for w in client.get(url).context["rows"]]


def add(world: World, name: str, team: str = "nlp", phase: Phase = Phase.QUEUED, **more: Any) -> Workload:
    return world.add(document("training", name, team, **more), phase)


# --- order and pages --------------------------------------------------------------------------


def test_a_heading_sorts_and_a_second_click_turns_it_round(bare: World, visit: Visit) -> None:
    for name in ("b", "c", "a"):
        add(bare, name)
    client = visit("mel")
    assert names(client, "/workloads/") == ["a", "c", "b"]  # the newest first
    assert names(client, "/workloads/?sort=name") == ["a", "b", "c"]
    page = client.get("/workloads/?sort=name")
    assert '<th aria-sort="ascending"><a href="/workloads/?sort=-name">' in page.content.decode()
    assert names(client, "/workloads/?sort=-name") == ["c", "b", "a"]


def test_the_list_sorts_by_all_that_is_asked(bare: World, visit: Visit) -> None:
    add(bare, "one")
    add(bare, "eight", resources={"gpus": 8}, workers={"count": 2})
    bare.add(document("notebook", "part", "nlp"), Phase.QUEUED)
    assert names(visit("mel"), "/workloads/?sort=-gpus") == ["eight", "one", "part"]


@pytest.mark.parametrize("sort", ["-age", "age", "name", "-name", "team", "-phase", "-priority", "gpus"])
def test_pages_go_on_and_back_and_show_each_workload_once(bare: World, visit: Visit, sort: str) -> None:
    for i in range(120):
        add(bare, f"job-{i % 7}-{i}")
    client, seen, url = visit("mel"), [], f"/workloads/?sort={sort}"
    while url:
        context = client.get(url).context
        seen.append([w.name for w in context["rows"]])
        last, url = url, context["older"]
    assert [len(one) for one in seen] == [50, 50, 20]
    assert len({name for one in seen for name in one}) == 120
    back = []
    while last:
        context = client.get(last).context
        back.append([w.name for w in context["rows"]])
        last = context["newer"]
    assert back[::-1] == seen


CURSORS = ("x", "WzFd", "%00", "W10", "WyItYWdlIiwgMSwgMSwgMF0", "WyItYWdlIixudWxsLDEsZmFsc2Vd")


@pytest.mark.parametrize("cursor", CURSORS)
@pytest.mark.parametrize("sort", ["-age", "name", "evil", "gpus"])
def test_an_odd_cursor_is_the_first_page(bare: World, visit: Visit, cursor: str, sort: str) -> None:
    add(bare, "only")
    assert names(visit("mel"), f"/workloads/?sort={sort}&cursor={cursor}") == ["only"]


def test_filters_by_reason_priority_and_person(world: World, visit: Visit) -> None:
    client, every = visit("admin"), Workload.objects.all()
    for query, wanted in (
        ("reason=Fragmented", every.filter(reason="Fragmented")),
        ("priority=normal", every.filter(priority_class__name="normal")),
        ("by=mel", every.filter(created_by__username="mel")),
        ("by=nobody", every.none()),
    ):
        assert client.get(f"/workloads/?{query}").context["total"] == wanted.count(), query


# --- saved views ------------------------------------------------------------------------------


def test_a_view_is_saved_shown_and_deleted_with_a_way_back(bare: World, visit: Visit) -> None:
    client = visit("mel")
    given = {"name": "What waits", "query": "phase=waiting&sort=-priority&cursor=abc"}
    answer = client.post("/workloads/views", given)
    assert answer["Location"] == "/workloads/?phase=waiting&sort=-priority"
    page = client.get(answer["Location"]).content.decode()
    assert 'href="/workloads/?phase=waiting&amp;sort=-priority" aria-current="true">What waits</a>' in page
    view = SavedView.objects.get()
    page = client.post(f"/workloads/views/{view.pk}/delete", follow=True).content.decode()
    toast = page[page.index('class="toast') :]
    assert 'name="name" value="What waits"' in toast
    assert 'name="query" value="phase=waiting&amp;sort=-priority"' in toast
    assert not SavedView.objects.exists()


def test_another_users_view_does_not_exist(bare: World, visit: Visit) -> None:
    visit("mel").post("/workloads/views", {"name": "mine", "query": "team=nlp"})
    number = SavedView.objects.get().pk
    assert visit("ada").post(f"/workloads/views/{number}/delete").status_code == 404
    assert ">mine</a>" not in visit("ada").get("/workloads/").content.decode()


def test_a_view_without_a_name_is_refused_in_words(bare: World, visit: Visit) -> None:
    page = visit("mel").post("/workloads/views", {"name": " ", "query": "team=nlp"}, follow=True).content.decode()
    assert "name is" in page[page.index('class="toast') :]
    assert not SavedView.objects.exists()


# --- several at once --------------------------------------------------------------------------


def phases(*rows: Workload) -> list[str]:
    return [Workload.objects.get(pk=w.pk).phase for w in rows]


def test_an_action_on_several_names_each_with_its_effect_and_does_it_once_confirmed(bare: World, visit: Visit) -> None:
    rows, client = [add(bare, name) for name in ("a", "b")], visit("mel")
    asked = client.get("/workloads/bulk", {"verb": "stop", "uid": [w.pk for w in rows]}).content.decode()
    assert "Stop a and b?" in asked
    assert asked.count("It leaves the queue permanently.") == 2
    assert phases(*rows) == ["Queued", "Queued"]
    told = client.post("/workloads/bulk", {"verb": "stop", "uid": [w.pk for w in rows]}).content.decode()
    assert "2 of 2 workloads done" in told
    assert phases(*rows) == ["Stopped", "Stopped"]


def test_what_cannot_be_done_is_told_for_each_and_holds_nothing_back(bare: World, visit: Visit) -> None:
    good, ended = add(bare, "good"), add(bare, "ended", phase=Phase.SUCCEEDED)
    chosen = {"verb": "suspend", "uid": [good.pk, ended.pk]}
    asked = visit("mel").get("/workloads/bulk", chosen).content.decode()
    assert "Skipped: It has ended: it is Succeeded." in asked
    assert asked.count('name="uid"') == 1
    told = visit("mel").post("/workloads/bulk", chosen).content.decode()
    assert "1 of 2 workloads done, 1 refused" in told
    assert "ended is Succeeded; it cannot be suspended." in told
    assert phases(good, ended) == ["Held", "Succeeded"]


def test_the_audit_log_has_a_row_for_each_with_what_came_of_it(bare: World, visit: Visit) -> None:
    good, ended = add(bare, "good"), add(bare, "ended", phase=Phase.SUCCEEDED)
    visit("mel").post("/workloads/bulk", {"verb": "suspend", "uid": [good.pk, ended.pk]})
    visit("mel").post(f"/workloads/{ended.pk}/suspend")
    rows = AuditEntry.objects.order_by("number").values_list("name", "team", "outcome", "kind")
    assert list(rows) == [
        ("good", "nlp", "done", "Held"),
        ("ended", "nlp", "refused", ""),
        ("ended", "nlp", "refused", ""),
    ]


def test_several_are_suspended_and_the_way_back_resumes_them(bare: World, visit: Visit) -> None:
    rows, client = [add(bare, name) for name in ("a", "b")], visit("mel")
    told = client.post("/workloads/bulk", {"verb": "suspend", "uid": [w.pk for w in rows]}).content.decode()
    assert 'name="verb" value="resume"' in told
    client.post("/workloads/bulk", {"verb": "resume", "uid": [w.pk for w in rows]})
    assert phases(*rows) == ["Queued", "Queued"]


def test_a_priority_is_changed_for_all_and_given_back_to_each(bare: World, visit: Visit) -> None:
    low, high = add(bare, "l", priority_class="low"), add(bare, "h", priority_class="high")
    client, uids = visit("ada"), [low.pk, high.pk]
    client.post("/workloads/bulk", {"verb": "priority", "uid": uids, "priority": "normal"})
    classes = Workload.objects.order_by("seq").values_list("priority_class__name", flat=True)
    assert list(classes) == ["normal", "normal"]
    client.post("/workloads/bulk", {"verb": "priority", "uid": uids, "priority": ["low", "high"]})
    assert list(classes.all()) == ["low", "high"]


def test_others_workloads_are_not_there_and_viewers_are_refused_for_each(bare: World, visit: Visit) -> None:
    ours, theirs = add(bare, "ours"), add(bare, "theirs", team="speech")
    chosen = {"verb": "stop", "uid": [ours.pk, theirs.pk]}
    told = visit("vic").post("/workloads/bulk", chosen).content.decode()
    assert "0 of 1 workload done, 1 refused" in told
    assert "Your role in team nlp does not allow this." in told
    assert "theirs" not in told
    assert phases(ours, theirs) == ["Queued", "Queued"]
    assert 'name="uid"' not in visit("vic").get("/workloads/").content.decode()


@pytest.mark.parametrize("uid", ["x", "%00", "0" * 40])
def test_odd_ids_choose_nothing(bare: World, visit: Visit, uid: str) -> None:
    assert visit("mel").get(f"/workloads/bulk?verb=stop&uid={uid}").status_code == 200
    assert visit("mel").get(f"/workloads/bulk?verb={quote('ex%plode')}&uid={uid}").status_code == 404


# --- one --------------------------------------------------------------------------------------


def test_a_priority_is_changed_on_its_page_and_the_toast_gives_the_old_one_back(bare: World, visit: Visit) -> None:
    w, client = add(bare, "mine", priority_class="low"), visit("mel")
    assert "Change priority of mine?" in client.get(f"/workloads/{w.pk}/priority").content.decode()
    page = client.post(f"/workloads/{w.pk}/priority", {"priority": "high"}, follow=True).content.decode()
    assert 'name="priority" value="low"' in page[page.index('class="toast') :]
    w.refresh_from_db()
    assert w.priority_class.name == "high"
    page = client.post(f"/workloads/{w.pk}/priority", {"priority": "none-such"}, follow=True).content.decode()
    assert "There is no priority class none-such." in page


def test_a_member_changes_the_priority_of_their_own_work_only(bare: World, visit: Visit) -> None:
    w = add(bare, "adas")
    Workload.objects.filter(pk=w.pk).update(created_by=bare.people["ada"])
    assert visit("mel").post(f"/workloads/{w.pk}/priority", {"priority": "high"}).status_code == 403
    assert "/priority" not in visit("mel").get(f"/workloads/{w.pk}/").content.decode()
