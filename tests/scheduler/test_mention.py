"""Sentences speak of workloads by id; who reads them gets the names that they may see, and a count of the others."""

import ast
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.explain.explanation import explain
from scheduler.explain.suggestions import suggestions
from scheduler.model.mention import MENTION, clipped, mention, mentioned, named
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.policies import POLICIES, decide, with_policy
from tests.strategies import worlds
from tests.worlds import parse

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary"

# All that the cores read a name of. A workload's is not among them, and must not be: what is decided is stored, and is
# shown to people who may not see each workload. Speak of a workload with `mention(workload.id)`.
NAMES_READ = {
    ("cell", "cell.name"): "a cell's",
    ("elastic", "self.plan.inventory.nodes[node].name"): "a node's",
    ("explanation", "check.name"): "a check's",
    ("gang", "inventory.nodes[node].name"): "a node's",
    ("candidates", "level.name"): "a level's",
    ("beside", "inventory.nodes[node].name"): "a node's",
    ("candidates", "o.name"): "a priority class's",
    ("candidates", "topology.require.name"): "a level's",
    ("ledger", "n.name"): "a node's",
    ("plan", "self.inventory.nodes[node].name"): "a node's",
    ("tree", "team.name"): "a team's",
    ("catalogue", "row.name"): "a back-end's",
    ("gives", "profile.name"): "a MIG profile's",
    ("mig", "instance.profile.name"): "a MIG profile's",
    ("mig", "one.name"): "a MIG profile's",
    ("ondemand", "notebook.name"): "of a program in what a node's daemon keeps; it tells its own node alone",
    ("ondemand", "one.name"): "the same",
    ("residency", "notebook.name"): "the same",
    ("residency", "one.name"): "the same",
    ("residency", "self.name"): "the same",
    ("role_reasons", "role.name"): "of a role in the workload that is told",
    ("sharing", "role.name"): "a role's",
    ("roundview", "node.name"): "a node's",
    ("snapshot", "n.name"): "a node's",
    ("tenants", "team.name"): "a team's",
    ("timeline", "client.name"): "of a program in a model of one GPU's time",
    ("terms", "_level(inventory, workers, nodes).name"): "a level's",
    ("workload", "role.name"): "a role's",
}

uids = st.lists(st.uuids().map(str), min_size=1, max_size=7, unique=True)


@given(uids, st.data())
def test_a_reader_gets_the_names_that_they_see_and_a_number_of_the_others(ids: list[str], data: st.DataObject) -> None:
    seen = data.draw(st.sets(st.sampled_from(ids)))
    text = named(f"Waits for {mention(*ids)} to leave.", {uid: f"red/n-{uid}" for uid in seen})
    shown = [uid for uid in ids[:3] if uid in seen]
    hidden = len(ids) - len(shown)
    assert not MENTION.search(text)
    assert [uid for uid in ids if uid in text] == shown
    if hidden and shown:
        assert f" and {hidden} more to leave" in text
    elif hidden > 1:
        assert text == f"Waits for {hidden} other workloads to leave."
    elif hidden:
        assert text == "Waits for another workload to leave."


def test_names_are_listed_as_people_write_them() -> None:
    names = {"a": "red/a", "b": "red/b", "c": "red/c", "d": "red/d"}
    assert named(mention("a"), names) == "red/a"
    assert named(mention("a", "b"), names) == "red/a and red/b"
    assert named(mention("a", "b", "c"), names) == "red/a, red/b and red/c"
    assert named(mention("a", "b", "c", "d"), names) == "red/a, red/b, red/c and 1 more"


@given(uids, st.integers(0, 300))
def test_a_text_that_is_cut_has_no_half_mention(ids: list[str], most: int) -> None:
    text = f"Waits for {mention(*ids)} to leave; {mention(ids[0])} as well."
    cut = clipped(text, most)
    assert len(cut) <= most
    assert text.startswith(cut)
    assert set(mentioned(cut)) <= set(ids)
    assert "[[" not in MENTION.sub("", cut)


@pytest.mark.parametrize("text", ["[[w:]]", "[[w:+x]]", "[[w:+]]", f"[[w:+{'9' * 30}]]", "[[w:<b>]]"])
def test_a_mention_that_a_tenant_wrote_is_no_more_than_a_number(text: str) -> None:
    assert named(text, {"a": "red/a"}) == "another workload"


def test_the_cores_read_no_workloads_name() -> None:
    """By the syntax tree: a sentence can only name a workload if its name is read."""
    found = Counter(
        (path.stem, ast.unparse(node))
        for core in ("scheduler", "autoscaler", "gpushare")
        for path in sorted((ROOT / core).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "name"
    )
    assert found.keys() == NAMES_READ.keys()


def test_every_sentence_of_a_preemption_is_without_the_names() -> None:
    world = _with_canaries(
        parse("""
            node a 2 gpus
            team red nominal 1   team blue nominal 1
            r1 red training 1 running a   b1 blue training 1 pending
            r2 red training 1 running a   r3 red training 2 priority 100
        """)
    )
    said = _all_that_is_said(world, Settings())
    assert any(True for _ in mentioned(said))
    assert CANARY not in said


@pytest.mark.parametrize("policy", sorted(POLICIES))
@given(world=worlds())
@settings(max_examples=25)
def test_no_sentence_names_a_workload(policy: str, world: Snapshot) -> None:
    assert CANARY not in _all_that_is_said(_with_canaries(world), with_policy(Settings(), policy))


def _with_canaries(world: Snapshot) -> Snapshot:
    renamed = tuple(replace(w, name=f"{CANARY}-{i}") for i, w in enumerate(world.workloads.values()))
    return world.replace(changed=renamed)


def _all_that_is_said(world: Snapshot, settings: Settings) -> str:
    """Decisions with their terms and numbers, and for all that waits the explanation and what would start it."""
    decisions = decide(world, settings)
    waiting = [w.id for w in world.workloads.values() if w.is_waiting][:3]
    asked = [(explain(world, uid, settings), suggestions(world, uid, settings, max_steps=60)) for uid in waiting]
    return repr((decisions, asked))
