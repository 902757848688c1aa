"""The feed of decisions and the stored rounds: what each shows, to whom, and where it leads."""

from typing import Any

from controlplane.models import Cycle, Event
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document


def cycle(decisions: list[dict[str, Any]], packed: bytes | None = b"x") -> Cycle:
    counts: dict[str, int] = {}
    for one in decisions:
        counts[one["kind"]] = counts.get(one["kind"], 0) + 1
    return Cycle.objects.create(
        loop="schedule", at="2026-01-01T00:00:00Z", cluster_at=NOW - 30, took_ms=4.2, epoch=1, policy=None,
        digest="ab" * 32, is_base=True, input=packed, decisions=decisions, counts=counts,
    )  # fmt: skip


def test_the_feed_is_narrowed_down_and_goes_back_in_time(world: World, visit: Visit) -> None:
    client = visit("admin")
    rows = client.get("/decisions/?group=waits").context["rows"]
    assert {row["event"].kind for row in rows} <= {"Waiting", "Held"}
    assert rows
    assert {r["event"].team for r in client.get("/decisions/?team=nlp").context["rows"]} == {"nlp"}
    first = client.get("/decisions/").context
    assert first["older"]
    more = client.get(first["older"]).context["rows"]
    assert more[0]["event"].pk < first["rows"][-1]["event"].pk


def test_a_decision_leads_to_its_workload_and_to_its_round(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "job", "nlp"))
    made = cycle([])
    Event.objects.create(
        at="2026-01-01T00:00:00Z", cluster_at=NOW, actor="loop:schedule", kind="Admitted", team="nlp", workload=w.pk,
        name="job", cycle=made.pk, data={"workers": [[0, "a100-00", [0]]]},
    )  # fmt: skip
    text = visit("mel").get("/decisions/").content.decode()
    assert f"/workloads/{w.pk}/" in text
    assert f"/decisions/rounds/{made.pk}/" in text
    assert "1 worker on a100-00" in text


def test_what_people_change_is_told_with_before_and_after_to_those_it_concerns(bare: World, visit: Visit) -> None:
    for team in ("nlp", "speech"):
        Event.objects.create(
            at="2026-01-01T00:00:00Z", cluster_at=NOW, actor="admin", kind="QuotaChanged", team=team, name="a100",
            data={"nominal": [8000, 12000]},
        )  # fmt: skip
    text = visit("mel").get("/decisions/?group=people").content.decode()
    assert "nominal: 8 GPUs → 12 GPUs" in text
    assert len(visit("mel").get("/decisions/?group=people").context["rows"]) == 1
    assert len(visit("admin").get("/decisions/?group=people").context["rows"]) == 2


def test_a_round_shows_each_decision_with_its_reason_and_how_to_decide_it_again(bare: World, visit: Visit) -> None:
    job, victim = (bare.add(document("training", name, "nlp")) for name in ("job", "victim"))
    made = cycle(
        [
            {"kind": "Place", "workload": str(job.pk), "version": 1, "after": [str(victim.pk)],
             "workers": [{"rank": 0, "node": "a100-00", "gpus": [0]}]},
            {"kind": "Evict", "workload": str(victim.pk), "version": 2, "reason": "Preempted", "by": str(job.pk),
             "message": "It leaves."},
        ]
    )  # fmt: skip
    text = visit("mel").get(f"/decisions/rounds/{made.pk}/").content.decode()
    assert "1 worker on a100-00, when 1 workload have left" not in text
    assert "1 worker on a100-00, after 1 workload has left" in text
    assert "It leaves. For nlp/job." in text
    assert f"manage.py replay {made.pk}" in text
    assert f"/workloads/{victim.pk}/?tab=why" in text
    assert "no longer stored" in visit("mel").get(f"/decisions/rounds/{cycle([], None).pk}/").content.decode()


def test_other_teams_decisions_are_not_in_a_round(bare: World, visit: Visit) -> None:
    own, foreign = bare.add(document("training", "own", "nlp")), bare.add(document("training", "undercover", "speech"))
    made = cycle([{"kind": "Wait", "workload": str(w.pk), "version": 1, "reason": "Fragmented", "message": w.name}
                  for w in (own, foreign)])  # fmt: skip
    answer = visit("mel").get(f"/decisions/rounds/{made.pk}/")
    assert "undercover" not in answer.content.decode()
    assert str(foreign.pk) not in answer.content.decode()
    assert answer.context["total"] == 1
    assert visit("admin").get(f"/decisions/rounds/{made.pk}/").context["total"] == 2


def test_a_long_round_comes_in_pages_and_a_missing_one_is_not_found(bare: World, visit: Visit) -> None:
    jobs = [bare.add(document("training", f"j{i}", "nlp"), Phase.QUEUED) for i in range(3)]
    made = cycle([{"kind": "Wait", "workload": str(w.pk), "version": 1, "message": w.name} for w in jobs * 50])
    first = visit("mel").get(f"/decisions/rounds/{made.pk}/").context
    assert (len(first["rows"]), first["total"]) == (100, 150)
    assert len(visit("mel").get(first["older"]).context["rows"]) == 50
    assert visit("mel").get("/decisions/rounds/999999/").status_code == 404


def test_the_audit_log_is_a_tab_for_admins_of_the_platform_or_of_a_team(bare: World, visit: Visit) -> None:
    visit("admin").post("/teams/nlp/quotas/a100/", {"nominal": "12", "weight": "1", "version": "1"})
    visit("admin").post("/teams/speech/quotas/a100/", {"nominal": "1", "weight": "1", "version": "1"})
    text = visit("admin").get("/decisions/audit/").content.decode()
    assert "POST /teams/nlp/quotas/a100/" in text
    assert "POST /teams/speech/quotas/a100/" in text
    text = visit("ada").get("/decisions/audit/").content.decode()  # an admin of nlp
    assert "POST /teams/nlp/quotas/a100/" in text
    assert "/teams/speech/" not in text
    assert visit("mel").get("/decisions/audit/").status_code == 403
    assert "/decisions/audit/" not in visit("mel").get("/decisions/").content.decode()
    assert "/decisions/audit/" in visit("ada").get("/decisions/").content.decode()


def test_trying_a_quota_leaves_no_row_in_the_audit_log(bare: World, visit: Visit) -> None:
    client = visit("admin")
    client.post("/teams/nlp/quotas/a100/preview", {"nominal": "12", "weight": "1"})
    assert client.get("/decisions/audit/").context["rows"] == []
