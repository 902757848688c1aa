"""What a pool's GPUs are for, and whether a team's shares lie beside others': REST, and what rounds make of it."""

import pytest

from controlplane.models import Event, Node, NodePool, Team
from controlplane.queries.scheduling import snapshot
from tests.controlplane.api.conftest import People, body_of, fields_of

SHARES = {"takes": "shares"}


def test_a_pool_says_what_it_takes_and_what_holds_a_share_to_its_part(api: People) -> None:
    pool = body_of(api.viewer.get("/node-pools/main"))
    assert (pool["takes"], pool["share_nodes"], pool["enforced_by"]) == ("both", 2, "back-end")
    node = body_of(api.viewer.get("/nodes/a"))
    assert (node["takes"], node["enforced_by"]) == (["whole", "shares"], "back-end")
    Node.objects.filter(name="a").update(enforces_limits=False)  # one that does not is enough for the pool
    assert body_of(api.viewer.get("/node-pools/main"))["enforced_by"] == "advisory"
    assert body_of(api.viewer.get("/nodes/a"))["enforced_by"] == "advisory"

    changed = body_of(api.platform.send("PATCH", "/node-pools/main", {"takes": "whole"}))
    assert (changed["takes"], changed["share_nodes"], changed["enforced_by"]) == ("whole", 0, None)
    node = body_of(api.viewer.get("/nodes/a"))
    assert (node["takes"], node["enforced_by"]) == (["whole"], None)


@pytest.mark.parametrize(
    ("takes", "is_labelled", "whole", "shares"),
    [
        ("both", True, True, True),
        ("both", False, True, False),
        ("shares", True, False, True),
        ("shares", False, False, False),
        ("whole", True, True, False),
    ],
)
def test_rounds_see_what_a_nodes_label_and_its_pool_say(
    api: People, takes: str, is_labelled: bool, whole: bool, shares: bool
) -> None:
    del api
    NodePool.objects.update(takes=takes)
    Node.objects.update(takes_shares=is_labelled)
    seen = {(node.takes_whole, node.takes_shares) for node in snapshot.full().inventory.nodes}
    assert seen == {(whole, shares)}


def test_a_change_of_a_pool_is_an_event_and_none_if_nothing_changes(api: People) -> None:
    body_of(api.platform.send("PATCH", "/node-pools/main", SHARES))
    body_of(api.platform.send("PATCH", "/node-pools/main", SHARES))
    (event,) = Event.objects.filter(kind="NodePoolChanged")
    assert (event.name, event.data, event.actor) == ("main", {"takes": ["both", "shares"]}, "root")


def test_what_a_pool_cannot_take_is_refused_by_its_field(api: People) -> None:
    for wrong in ("all", "", 1, None, ["whole"]):
        assert fields_of(api.platform.send("PATCH", "/node-pools/main", {"takes": wrong})) == ["takes"]
    assert fields_of(api.platform.send("PATCH", "/node-pools/main", {})) == ["takes"]
    fields_of(api.platform.send("PATCH", "/node-pools/none", SHARES), 404)
    fields_of(api.viewer.get("/node-pools/none"), 404)
    assert NodePool.objects.get(name="main").takes == "both"


def test_a_teams_admin_says_whether_its_shares_may_lie_beside_others(api: People) -> None:
    assert body_of(api.viewer.get("/teams/red"))["shares_with_others"] is False
    assert body_of(api.admin.send("PATCH", "/teams/red", {"shares_with_others": True}))["shares_with_others"] is True
    allowed = {team.name: team.shares_with_others for team in snapshot.full().teams}
    assert allowed["red"]
    assert not any(allowed[name] for name in allowed if name != "red")
    (event,) = Event.objects.filter(kind="SharingChanged")
    assert (event.team, event.data) == ("red", {"shares_with_others": True})
    fields_of(api.member.send("PATCH", "/teams/red", {"shares_with_others": False}), 403)
    assert fields_of(api.admin.send("PATCH", "/teams/red", {"shares_with_others": "yes"})) == ["shares_with_others"]
    assert Team.objects.get(name="red").shares_with_others
