"""The pages of services and notebooks: how they stand, what was decided, and what can be done."""

from itertools import pairwise

import pytest

from controlplane.models import Event, Node, PlacementState, ServiceScaler, ServiceWindow, Team, Workload
from scheduler.model.workload import Phase, Weights
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document


def service(world: World) -> Workload:
    return Workload.objects.get(team__name="nlp", kind="inference")


def told(w: Workload, kind: str, *, by: Workload | None = None, **columns: object) -> Event:
    data = {"by": str(by.pk)} if by else columns.pop("data", {})
    return Event.objects.create(
        at="2026-01-01T00:00:00Z", cluster_at=NOW - 60, actor="loop:scale", kind=kind, team=w.team.name,
        workload=w.pk, name=w.name, data=data, **columns,
    )  # fmt: skip


def test_services_stand_with_the_worst_first(world: World, visit: Visit) -> None:
    rows = visit("admin").get("/services/").context["rows"]
    left = [row["s"].budget_left for row in rows if row["s"].budget_left is not None]
    assert len(rows) == 4
    assert left == sorted(left)


def minutes(w: Workload, over: int, ago: range, requests: int = 1000) -> None:
    """One row of so many requests for each of these minutes before now."""
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=w.pk, start=NOW - 60 * k, requests=requests, over=over, p95_seconds=0.1, replicas=1)
        for k in ago
    )


def running_service(bare: World) -> Workload:
    return bare.add(document("inference", "chat", "nlp"), Phase.RUNNING)


@pytest.mark.parametrize(
    ("over", "word"),
    [(0, "Met"), (150, "At risk"), (1000, "Violated")],  # of 1,000 a minute; 10 may miss it, 14,400 in the day
)
def test_one_word_says_how_a_service_stands_on_every_page(bare: World, visit: Visit, over: int, word: str) -> None:
    w = running_service(bare)
    minutes(w, 0, range(71, 1500))  # days that keep the budget
    minutes(w, over, range(1, 71))
    for page in ("/services/", f"/services/{w.pk}/", "/workloads/", f"/workloads/{w.pk}/?tab=objective"):
        text = visit("mel").get(page).content.decode()
        assert f">{word}</span>" in text, page
        assert '<span class="state ok">Running' not in text, page  # that it runs is no good news


def test_a_running_service_that_nothing_measures_is_not_known(bare: World, visit: Visit) -> None:
    w = running_service(bare)
    minutes(w, 0, range(16, 600))
    assert ">Not known</span>" in visit("mel").get("/services/").content.decode()
    minutes(w, 0, range(2, 3))
    assert ">Met</span>" in visit("mel").get("/services/").content.decode()


def test_a_service_that_sleeps_is_met_and_its_page_says_what_the_next_request_waits(bare: World, visit: Visit) -> None:
    doc = document("inference", "chat", "nlp") | {"replicas": {"min": 0, "max": 2}, "gateway": {"slots": 4}}
    w = bare.add(doc, Phase.RUNNING)
    minutes(w, 0, range(60, 600))
    page = f"/services/{w.pk}/"
    assert "sleeps after 10 min without a request" in visit("mel").get(page).content.decode()
    Workload.objects.filter(pk=w.pk).update(workers=0)
    text = visit("mel").get(page).content.decode()
    assert "asleep, as no request came for 10 min; the next one waits" in text
    assert ">Met</span>" in text
    assert "0/0 running, min 0, max 2" in text


def test_a_service_that_kubernetes_scales_says_so_and_what_its_autoscaler_complains_of(
    bare: World, visit: Visit
) -> None:
    w = bare.add(document("inference", "chat", "nlp") | {"scaling": "native"}, Phase.RUNNING)
    page = f"/services/{w.pk}/"
    assert "scaled by Kubernetes&#x27; HPA, which has said nothing yet" in visit("mel").get(page).content.decode()
    usual, limited = (
        ["AbleToScale", "True", "Ready", ""],
        ["ScalingLimited", "True", "TooManyReplicas", "more than <8>"],
    )
    ServiceScaler.objects.create(
        workload=w.pk, at=NOW, in_flight=31_000, target=6400, seen_at=NOW, current=2, desired=5,
        conditions=[usual, limited], other_owner="helm",
    )  # fmt: skip
    text = visit("mel").get(page).content.decode()
    assert "scaled by Kubernetes&#x27; HPA: 2 now, 5 wanted; 31.0 requests in flight, 6.4 are to be at each" in text
    assert "<strong>ScalingLimited True</strong>: TooManyReplicas: more than &lt;8&gt;" in text
    assert "AbleToScale" not in text
    assert "helm writes the number too. Leave replicas out of what it applies." in text


def test_a_service_on_shares_says_what_its_limit_is_and_why_it_is_not_raised(bare: World, visit: Visit) -> None:
    share = {"guarantee": 0.3, "memory": "8Gi", "max_limit": 0.9}
    doc = document("inference", "chat", "nlp") | {"resources": {"gpu_share": share, "cpu": 1, "memory": "1Gi"}}
    w = bare.add(doc, Phase.RUNNING)
    Workload.objects.filter(pk=w.pk).update(share_limit=300)
    bare.place(w, PlacementState.BOUND)
    page = f"/services/{w.pk}/"
    text = visit("mel").get(page).content.decode()
    assert "<dt>Limit of a replica</dt><dd>0.3 of a GPU; not raised to 0.9, as nothing on " in text
    assert "holds a share to it (advisory)" in text
    Node.objects.update(enforces_limits=True)
    assert "<dd>0.3 of a GPU, between 0.3 and 0.9" in visit("mel").get(page).content.decode()
    plain = bare.add(document("inference", "plain", "nlp"), Phase.RUNNING)
    assert "Limit of a replica" not in visit("mel").get(f"/services/{plain.pk}/").content.decode()


def test_a_service_without_an_objective_is_listed_too(bare: World, visit: Visit) -> None:
    doc = document("inference", "plain", "nlp")
    del doc["objective"]
    w = bare.add(doc, Phase.RUNNING)
    assert "no objective" in visit("mel").get("/services/").content.decode()
    assert "the job file has no objective" in visit("mel").get(f"/services/{w.pk}/").content.decode()


def test_a_service_shows_its_decisions_and_whose_gpus_it_took(world: World, visit: Visit) -> None:
    w = service(world)
    own = world.add(document("training", "gave", "nlp"), Phase.QUEUED)
    foreign = world.add(document("training", "undercover", "speech"), Phase.QUEUED)
    told(w, "Scaled", message="The p95 was 240 ms.", data={"before": 2, "after": 3}, cycle=7)
    for victim in (own, foreign):
        told(victim, "Evicted", by=w, reason="Preempted")
    told(own, "Evicted", by=foreign, reason="Preempted")  # for somebody else
    answer = visit("mel").get(f"/services/{w.pk}/")
    text = answer.content.decode()
    assert "2 → 3 replicas: The p95 was 240 ms." in text
    assert [one.name for one in answer.context["taken"]] == ["", "gave"]
    assert "undercover" not in text


def test_latency_budget_replicas_and_decisions_stand_on_one_time_axis(world: World, visit: Visit) -> None:
    w = service(world)
    told(w, "Scaled", message="The p95 was 240 ms.", data={"before": 2, "after": 3})
    told(w, "Scaled", message="2 were needed.", data={"before": 3, "after": 2})
    foreign = world.add(document("training", "undercover", "speech"), Phase.QUEUED)
    told(foreign, "Evicted", by=w, reason="Preempted")
    figure = visit("mel").get(f"/services/{w.pk}/history").json()
    drawn = {trace["name"]: trace for trace in figure["data"]}
    assert list(drawn) == [
        "p95", "objective", "error budget left", "ready", "wanted", "requests/s", "decisions", "GPUs taken",
    ]  # fmt: skip
    assert len(drawn["p95"]["x"]) > 10
    assert [trace.get("yaxis") for trace in figure["data"]] == [None, None, "y2", "y3", "y3", "y4", "y3", "y3"]
    assert all("xaxis" not in trace for trace in figure["data"]), "one axis of time for all"
    assert drawn["decisions"]["text"] == ["3 → 2 replicas: 2 were needed.", "2 → 3 replicas: The p95 was 240 ms."]
    assert drawn["decisions"]["y"] == [2, 3]
    assert drawn["decisions"]["marker"]["symbol"] == ["triangle-down", "triangle-up"]
    assert drawn["GPUs taken"]["text"] == ["took GPUs of team speech"], "whose it was is not for everybody to know"
    spans = [figure["layout"][axis]["domain"] for axis in ("yaxis3", "yaxis2", "yaxis")]
    assert all(below[1] < above[0] for below, above in pairwise(spans)), "the panels do not overlap"


def test_what_is_on_standby_and_lent_stands_on_the_same_axis_and_in_the_table(bare: World, visit: Visit) -> None:
    doc = document("inference", "chat", "nlp") | {
        "replicas": {"min": 1, "max": 4}, "standby": 2, "resources": {"gpu_share": {"guarantee": 1, "memory": "6Gi"}},
    }  # fmt: skip
    w = bare.add(doc, Phase.RUNNING)
    ServiceWindow.objects.create(workload=w.pk, start=NOW - 180, replicas=1, wanted=1)  # before it had standby
    for ago, lent in ((120, 2), (60, 1)):
        ServiceWindow.objects.create(workload=w.pk, start=NOW - ago, replicas=1, wanted=1, asleep=3, lent=lent)
    Workload.objects.filter(pk=w.pk).update(awake=1, standby=2)
    figure = visit("mel").get(f"/services/{w.pk}/history").json()
    drawn = {trace["name"]: trace for trace in figure["data"]}
    assert drawn["on standby"]["y"] == [None, 3, 3]
    assert drawn["lent to trainings"]["y"] == [None, 2, 1]
    assert drawn["lent to trainings"]["x"] == drawn["ready"]["x"]
    assert {drawn[name]["yaxis"] for name in ("ready", "on standby", "lent to trainings")} == {"y3"}
    assert figure["layout"]["yaxis3"]["range"][1] >= 3
    table = visit("mel").get(f"/services/{w.pk}/?view=table").content.decode()
    assert '<th class="num">On standby</th><th class="num">Lent</th>' in table
    assert '<td class="num">3</td><td class="num">1</td>' in table
    plain = bare.add(document("inference", "plain", "nlp"), Phase.RUNNING)
    minutes(plain, 0, range(1, 3))
    assert "On standby</th>" not in visit("mel").get(f"/services/{plain.pk}/?view=table").content.decode()


def test_the_budget_burns_down_as_its_requests_are_late(bare: World, visit: Visit) -> None:
    w = running_service(bare)
    minutes(w, 0, range(61, 1500))
    minutes(w, 100, range(1, 61))
    figure = visit("mel").get(f"/services/{w.pk}/history").json()
    left = next(trace for trace in figure["data"] if trace["name"] == "error budget left")["y"]
    assert left[:299] == [100.0] * 299
    assert all(after < before for before, after in pairwise(left[-60:]))
    assert left[-1] == pytest.approx(100 * (1 - 59 * 100 / 14_400), abs=0.05), "of the day's budget, at the last minute"
    table = visit("mel").get(f"/services/{w.pk}/?view=table").content.decode()
    assert "Budget left" in table
    assert ">58.9 %<" in table, "rounded down, like all percents"


def test_a_service_without_an_objective_has_its_replicas_drawn_all_the_same(bare: World, visit: Visit) -> None:
    doc = document("inference", "plain", "nlp")
    del doc["objective"]
    w = bare.add(doc, Phase.RUNNING)
    minutes(w, 0, range(1, 10))
    figure = visit("mel").get(f"/services/{w.pk}/history").json()
    assert [trace["name"] for trace in figure["data"]][:3] == ["p95", "error budget left", "ready"]
    assert figure["data"][1]["y"] == []


def test_the_queue_in_front_of_a_service_is_on_its_page(bare: World, visit: Visit) -> None:
    doc = document("inference", "queued", "nlp", gateway={"slots": 8, "late_after": "2s", "waiting": 70})
    text = visit("mel").get(f"/services/{bare.add(doc, Phase.RUNNING).pk}/").content.decode()
    assert "8 requests at once in each replica, late after 2 s, at most 70 wait" in text
    plain = visit("mel").get(f"/services/{running_service(bare).pk}/").content.decode()
    assert "none: requests go straight to the replicas" in plain


def test_a_service_says_on_how_many_gpus_it_lies_and_over_what_it_is_spread(bare: World, visit: Visit) -> None:
    share = {"gpu_share": {"guarantee": 0.3, "memory": "8Gi"}, "cpu": 1, "memory": "1Gi"}
    doc = document("inference", "chat", "nlp") | {"resources": share, "replicas": {"min": 2, "max": 4}}
    w = bare.add(doc, Phase.RUNNING)
    bare.place(w, PlacementState.BOUND)
    page = f"/services/{w.pk}/"
    assert "2 running on 1 GPU of 1 node, min 2, max 4</dd>" in visit("mel").get(page).content.decode()
    Workload.objects.filter(pk=w.pk).update(spread="node")
    assert "of 1 node, min 2, max 4, spread over nodes</dd>" in visit("mel").get(page).content.decode()


def test_pages_say_where_weights_on_standby_are_and_how_soon_a_replica_answers(bare: World, visit: Visit) -> None:
    share = {"gpu_share": {"guarantee": 1, "memory": "8Gi"}, "cpu": 1, "memory": "1Gi"}
    kept = {"replicas": {"min": 3, "max": 3}, "standby": 2, "standby_memory": "host"}
    w = bare.add(document("inference", "chat", "nlp") | {"resources": share} | kept, Phase.RUNNING)
    Workload.objects.filter(pk=w.pk).update(awake=1)
    bare.place(w, PlacementState.BOUND)
    w.placements.filter(rank__gt=0).update(asleep_at=NOW - 60)
    w.placements.filter(rank=2).update(weights=Weights.HOST.value)
    text = visit("mel").get(f"/services/{w.pk}/").content.decode()
    assert "2 on standby, 0 of their GPUs lent to trainings, 1 with weights in host memory" in text
    assert "(wakes in 2 s, from host memory in 10 s; " in text
    text = visit("mel").get(f"/workloads/{w.pk}/?tab=placement").content.decode()
    assert "on standby, answers in 2 s" in text
    assert "on standby, weights in host memory, answers in 10 s" in text


def test_another_teams_service_and_what_is_no_service_do_not_exist(world: World, visit: Visit) -> None:
    training = Workload.objects.filter(kind="training", team__name="nlp").first()
    assert training is not None
    assert visit("out").get(f"/services/{service(world).pk}/").status_code == 404
    assert visit("mel").get(f"/services/{training.pk}/").status_code == 404


def notebook(
    world: World, name: str, *, idle: float | None = None, phase: Phase = Phase.RUNNING, **more: object
) -> Workload:
    w = world.add(document("notebook", name, str(more.pop("team", "nlp")), idle={"park_after": "30m"}), phase)
    if phase == Phase.RUNNING:
        world.place(w, "Bound")
    Workload.objects.filter(pk=w.pk).update(idle_since=None if idle is None else NOW - idle, started_at=NOW - 9000)
    return w


def test_a_notebook_is_active_idle_with_its_time_left_or_parked(bare: World, visit: Visit) -> None:
    notebook(bare, "busy")
    notebook(bare, "lazy", idle=1200)
    notebook(bare, "slept", phase=Phase.SUSPENDED)
    rows = visit("mel").get("/notebooks/").context["rows"]
    seen = {row["w"].name: (str(row["row"].use), row["parks_in"]) for row in rows}
    assert seen == {"busy": ("active", None), "lazy": ("idle", 600.0), "slept": ("parked", None)}
    text = visit("mel").get("/notebooks/").content.decode()
    assert "parks in 10 min" in text
    assert ">Resume<" in text


def test_a_teams_admin_says_when_notebooks_are_parked_and_whether_they_are_extended(bare: World, visit: Visit) -> None:
    notebook(bare, "lazy", idle=300)
    assert ">Extend<" in visit("mel").get("/notebooks/").content.decode()
    client = visit("ada")
    assert client.post("/teams/nlp/notebooks", {"minutes": "10", "share": "0.5"}).status_code == 302
    team = Team.objects.get(name="nlp")
    assert (team.notebook_park_minutes, team.notebook_max_milli, team.notebook_extend) == (10, 500, False)
    page = client.get("/teams/nlp/people/").content.decode()
    assert 'value="10"' in page
    assert 'value="0.5"' in page
    text = visit("mel").get("/notebooks/").content.decode()
    assert "parks in 5 min" in text
    assert ">Extend<" not in text
    for wrong in ({"minutes": "soon"}, {"share": "-1"}, {"minutes": "nan"}, {"share": "1e9"}):
        assert client.post("/teams/nlp/notebooks", wrong).status_code == 422
    assert client.post("/teams/nlp/notebooks", {"extend": "on"}).status_code == 302
    team.refresh_from_db()
    assert (team.notebook_park_minutes, team.notebook_max_milli, team.notebook_extend) == (0, 0, True), (
        "empty: no limit"
    )
    assert visit("mel").post("/teams/nlp/notebooks", {"minutes": "1"}).status_code == 403


def test_a_notebooks_own_address_says_how_to_reach_it(bare: World, visit: Visit) -> None:
    w = notebook(bare, "lazy", idle=1200)
    text = visit("vic").get("/notebooks/nlp/lazy/").content.decode()
    assert "parks in 10 min" in text
    assert "http://lazy.weft-nlp.svc:8888" in text
    assert visit("out").get("/notebooks/nlp/lazy/").status_code == 404
    assert visit("vic").get("/notebooks/nlp/none/").status_code == 404
    assert f"/workloads/{w.pk}/" in text


def test_opening_a_parked_one_brings_it_back_and_drawing_it_again_does_not(bare: World, visit: Visit) -> None:
    w = notebook(bare, "slept", phase=Phase.SUSPENDED)
    at, client = "/notebooks/nlp/slept/", visit("mel")
    assert 'hx-trigger="load"' in client.get(at).content.decode(), "the page asks for it by itself"
    drawn = client.get(at, headers={"HX-Request": "true"}).content.decode()
    assert ">Resume<" in drawn
    assert 'hx-trigger="load"' not in drawn
    w.refresh_from_db()
    assert w.phase == "Suspended", "to read it changes nothing"
    said = client.post(at, headers={"HX-Request": "true"}).content.decode()
    w.refresh_from_db()
    assert w.phase == "Queued"
    assert ">Resume<" not in said
    assert client.post(at).status_code == 302, "it is resumed already; the reason is said on the page"
    assert 'hx-trigger="load"' not in client.get(at).content.decode()


def test_who_may_only_look_does_not_bring_it_back(bare: World, visit: Visit) -> None:
    w = notebook(bare, "slept", phase=Phase.SUSPENDED)
    text = visit("vic").get("/notebooks/nlp/slept/").content.decode()
    assert "A member of nlp can resume it." in text
    assert 'hx-trigger="load"' not in text
    assert visit("vic").post("/notebooks/nlp/slept/").status_code == 403
    w.refresh_from_db()
    assert w.phase == "Suspended"


def test_neighbours_on_the_gpu_are_shown_those_of_other_teams_without_a_name(bare: World, visit: Visit) -> None:
    notebook(bare, "mine")
    notebook(bare, "beside")
    notebook(bare, "secret", team="speech")
    row = next(r for r in visit("mel").get("/notebooks/").context["rows"] if r["w"].name == "mine")
    assert sorted((n.team, n.name) for n in row["row"].neighbours) == [("nlp", "beside"), ("speech", "")]


def test_extending_begins_the_countdown_anew_and_is_for_those_who_may_act(bare: World, visit: Visit) -> None:
    w = notebook(bare, "lazy", idle=1200)
    assert visit("vic").post(f"/notebooks/{w.pk}/extend").status_code == 403
    assert visit("out").post(f"/notebooks/{w.pk}/extend").status_code == 404
    assert "Extend" not in visit("vic").get("/notebooks/").content.decode()
    page = visit("mel").post(f"/notebooks/{w.pk}/extend", follow=True).content.decode()
    assert "lazy is extended" in page
    assert Workload.objects.get(pk=w.pk).idle_since is None
    assert Event.objects.get(kind="Extended").actor == "mel"
    parked = notebook(bare, "slept", phase=Phase.SUSPENDED)
    assert "does not run" in visit("mel").post(f"/notebooks/{parked.pk}/extend", follow=True).content.decode()
