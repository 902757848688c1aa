"""`weft report sla`: a month of services, for people, for programs and for spreadsheets."""

import json

from tests.client.conftest import Weft
from tests.client.scripted import Answer, Scripted, page, workload

ROW = {
    "team": "nlp", "service": "chat", "workload": "00000000-0000-4000-8000-000000000001", "availability_target": 0.999,
    "p95_target_seconds": 0.2, "requests": 2_880_000, "over_objective": 4320, "attainment": 0.9985, "is_kept": False,
    "budget_left": -0.5, "met_minutes": 2530, "at_risk_minutes": 140, "violated_minutes": 200, "not_known_minutes": 0,
    "allocated_gpu_hours": 12.0, "worst_minute": "2026-01-31T00:10:00Z", "worst_minute_requests": 1000,
    "worst_minute_over_objective": 1800,
}  # fmt: skip
QUIET = {**ROW, "service": "quiet", "requests": 0, "over_objective": 0, "attainment": None, "is_kept": None,
         "budget_left": None, "worst_minute": None}  # fmt: skip


def found(*rows: object, until: str | None = "2026-01-31T23:00:00Z") -> dict[str, object]:
    period = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}
    return {**period, "month": "2026-01", "noted_until": until, "teams": [], "rows": list(rows)}


def test_a_month_is_a_table_with_what_was_kept(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/reports/sla", found(ROW, QUIET))
    ran = weft("report", "sla", "--team", "nlp", "--month", "2026-01")
    head, chat, quiet = ran.out.splitlines()
    assert head.split()[:4] == ["SERVICE", "KEPT", "TARGET", "ATTAINMENT"]
    said = "nlp/chat no 99.90 % 99.850 % -50 % 2880000 4320 2h20m 3h20m - 12.0"
    assert chat.split() == said.split()
    assert quiet.split()[:2] == ["nlp/quiet", "-"]
    assert "known up to" in ran.err
    assert signed_in.sent("GET", "/reports/sla")[0].query == {"team": "nlp", "month": "2026-01"}


def test_a_month_of_which_nothing_is_known_says_so(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/reports/sla", found(until=None))
    ran = weft("report", "sla")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "No service with an objective is known of in 2026-01.\n"


def test_for_programs_it_is_the_servers_answer(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/reports/sla", found(ROW))
    assert json.loads(weft("report", "sla", "-o", "json").out) == found(ROW)


def test_for_spreadsheets_it_is_the_servers_table(signed_in: Scripted, weft: Weft) -> None:
    table = b"team,service\r\nnlp,'=cmd()\r\n"
    signed_in.on("GET", "/reports/sla", Answer(table, headers={"Content-Type": "text/csv; charset=utf-8"}))
    assert weft("report", "sla", "--csv").out == "team,service\nnlp,'=cmd()\n"
    assert signed_in.sent("GET", "/reports/sla")[0].query == {"format": "csv"}


def test_a_server_that_answers_otherwise_is_told_as_that(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/reports/sla", found(ROW))
    ran = weft("report", "sla", "--csv")
    assert ran.code == 1
    assert "where a table was expected" in ran.err


# --- what an objective costs --------------------------------------------------------------------

CHAT = workload("chat", "Running", type="inference")
PRICE = {"p95_seconds": 0.2, "gpu_hours_a_day": 48.25, "replicas_mean": 2.01, "replicas_most": 4, "short_part": 0.0}
TIGHT = {**PRICE, "p95_seconds": 0.09, "gpu_hours_a_day": 96.0, "replicas_mean": 4.0, "short_part": 0.125}
UNKNOWN = {**dict.fromkeys(PRICE), "p95_seconds": 0.2}


def priced(server: Scripted, now: object, asked: object = None, standby: str = "") -> None:
    server.on("GET", "/workloads", page(CHAT))
    told = {"uid": CHAT["uid"], "now": now, "asked": asked, "standby": standby}
    server.on("GET", f"/inferences/{CHAT['uid']}/slo/price", told)


def test_what_another_latency_would_cost_is_told_beside_the_present_one(signed_in: Scripted, weft: Weft) -> None:
    priced(signed_in, PRICE, TIGHT)
    assert weft("price", "nlp/chat", "--latency", "90ms").out.splitlines() == [
        "90 ms: about 96.0 GPU-hours a day, 4.0 replicas on average, 4 at most; 12.5% of the time it needs more than "
        "its max",
        "200 ms: about 48.2 GPU-hours a day, 2.0 replicas on average, 4 at most",
    ]
    assert signed_in.sent("GET", f"/inferences/{CHAT['uid']}/slo/price")[0].query == {"p95_latency": "90ms"}


def test_standby_has_its_price_before_it_is_changed(signed_in: Scripted, weft: Weft) -> None:
    priced(signed_in, PRICE, {**PRICE, "replicas_mean": 4.01}, "Standby holds up to 2 GPUs, 48 GPU hours a day.")
    said = weft("price", "nlp/chat", "--standby", "2").out.splitlines()
    assert "4.0 replicas on average" in said[0]
    assert said[2:] == ["Standby holds up to 2 GPUs, 48 GPU hours a day."]
    assert signed_in.sent("GET", f"/inferences/{CHAT['uid']}/slo/price")[0].query == {"standby": "2"}


def test_a_first_token_has_a_price_too_and_one_latency_is_asked_about(signed_in: Scripted, weft: Weft) -> None:
    priced(signed_in, PRICE, {**TIGHT, "p95_of": "first_token"})
    assert weft("price", "nlp/chat", "--first-token", "90ms").out.startswith("first token within 90 ms: about ")
    assert signed_in.sent("GET", f"/inferences/{CHAT['uid']}/slo/price")[0].query == {"p95_first_token": "90ms"}
    ran = weft("price", "nlp/chat", "--first-token", "90ms", "--latency", "90ms")
    assert ran.code == 2
    assert "--latency and --first-token are both given." in ran.err


def test_a_price_that_is_not_known_or_of_nothing_is_told_as_that(signed_in: Scripted, weft: Weft) -> None:
    priced(signed_in, UNKNOWN)
    assert weft("price", "nlp/chat").out == "200 ms: not known before requests were measured\n"
    assert json.loads(weft("price", "nlp/chat", "-o", "json").out)["now"] == UNKNOWN
    priced(signed_in, None)
    ran = weft("price", "nlp/chat")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "nlp/chat has no objective. Name a latency: --latency 200ms, or --first-token 500ms.\n"
