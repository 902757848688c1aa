"""The command line: beside whose shares a team's may lie, what must hold them, its notebooks, what pools are for."""

from tests.client.conftest import Weft
from tests.client.scripted import Scripted


def test_a_teams_sharing_is_switched_and_said(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("PATCH", "/teams/nlp", {"name": "nlp", "shares_with_others": True}, {"name": "nlp"})
    assert weft("sharing", "nlp", "on").out == (
        "New shares of nlp may lie beside shares of other teams that allow it too.\n"
    )
    assert weft("sharing", "nlp", "off").out == "New shares of nlp lie beside those of no other team.\n"
    assert [one.body["shares_with_others"] for one in signed_in.sent("PATCH", "/teams/nlp")] == [True, False]
    assert weft("sharing", "nlp", "maybe").code == 2


def test_what_holds_of_a_teams_notebooks_is_changed_and_said(signed_in: Scripted, weft: Weft) -> None:
    said = {"notebook_park_minutes": 60, "notebook_max_milli": 500, "notebook_extend": False}
    signed_in.on("PATCH", "/teams/nlp", {"name": "nlp", **said})
    signed_in.on("GET", "/teams/nlp", {"name": "nlp"})
    assert weft("parking", "nlp", "--after", "60", "--share", "0.5", "--extend", "off").out.splitlines() == [
        "Notebooks of nlp are parked after 60 minutes without use at the latest.",
        "One may be guaranteed 0.5 GPUs.",
        "An idle one may not be extended.",
    ]
    assert [one.body for one in signed_in.sent("PATCH", "/teams/nlp")] == [said]
    assert weft("parking", "nlp").out.splitlines()[0] == "Notebooks of nlp are parked as their job files say."
    assert weft("parking", "nlp", "--after", "-1").code == 2


def test_what_must_hold_a_team_s_shares_is_demanded_and_said(signed_in: Scripted, weft: Weft) -> None:
    held = {"name": "nlp", "share_demands": ["memory", "faults"]}
    signed_in.on("PATCH", "/teams/nlp", held, {"name": "nlp", "share_demands": []})
    assert weft("demand", "nlp", "memory", "faults").out == (
        "New shares of nlp go only where this is held: memory, faults.\n"
    )
    assert weft("demand", "nlp", "nothing").out == "New shares of nlp go wherever they fit.\n"
    sent = [one.body for one in signed_in.sent("PATCH", "/teams/nlp")]
    assert sent == [{"share_demands": ["memory", "faults"]}, {"share_demands": []}]
    assert weft("demand", "nlp").code == 2


def test_a_pool_s_back_end_is_chosen_and_said_with_what_was_not_verified(signed_in: Scripted, weft: Weft) -> None:
    told = {
        "name": "a100", "takes": "shares", "nodes": 3, "share_nodes": 3, "enforcer": "mig", "enforced_by": "mig",
        "guarantees": ["memory"], "verified": False, "enforcement": "A share is an instance.",
    }  # fmt: skip
    signed_in.on("PATCH", "/node-pools/a100", told)
    assert weft("pool", "a100", "shares", "--enforced-by", "mig").out.splitlines()[1:] == [
        "3 of its 3 nodes are labelled for shares; what holds a share to its part: mig.",
        "A share is an instance. Not verified on a GPU by Weft.",
    ]
    assert signed_in.sent("PATCH", "/node-pools/a100")[0].body == {"takes": "shares", "enforcer": "mig"}
    assert weft("pool", "a100", "shares", "--enforced-by", "luck").code == 2


def test_what_a_pool_takes_is_changed_and_said_with_what_enforces_it(signed_in: Scripted, weft: Weft) -> None:
    shares = {"name": "a100", "takes": "shares", "nodes": 3, "share_nodes": 2, "enforced_by": "advisory"}
    whole = {"name": "a100", "takes": "whole", "nodes": 3}
    signed_in.on("PATCH", "/node-pools/a100", shares, whole)
    assert weft("pool", "a100", "shares").out == (
        "Node pool a100 takes shares.\n"
        "2 of its 3 nodes are labelled for shares; what holds a share to its part: advisory.\n"
    )
    assert weft("pool", "a100", "whole").out == "Node pool a100 takes whole GPUs.\n"
    assert [one.body for one in signed_in.sent("PATCH", "/node-pools/a100")] == [
        {"takes": "shares"},
        {"takes": "whole"},
    ]
