"""Labels of shares in a job file: what is read, what is refused and how that is said."""

from typing import Any

import pytest

from controlplane.jobspec.spec import parse
from gpushare.gpu import Labels
from tests.controlplane.test_spec import HELLO, faults

LABELLED = {"guarantee": 0.3, "memory": "1Gi", "affinity": "web", "anti_affinity": "ps.1", "exclusion": "Mine"}


@pytest.mark.parametrize("kind", ["training", "notebook", "inference"])
def test_a_share_says_beside_what_it_lies(kind: str) -> None:
    file = {"type": kind, "name": "a", "team": "red", "image": "a/b:1", "resources": {"gpu_share": LABELLED}}
    needs = {"training": {"command": ["x"]}, "inference": {"port": 80}}
    asked = parse({**file, **needs.get(kind, {})}).resources
    assert asked.labels == Labels("web", "ps.1", "Mine")
    without = {name: LABELLED[name] for name in ("guarantee", "memory")}
    assert not parse({**HELLO, "resources": {"gpu_share": without}}).resources.labels


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("a b", "Use letters, digits"),
        ("", "is empty"),
        ("-a", "Use letters"),
        ("a" * 64, "at most 63"),
        (7, "not text"),
    ],
)
@pytest.mark.parametrize("field", ["affinity", "anti_affinity", "exclusion"])
def test_a_label_of_a_share_is_a_word(field: str, label: Any, fault: str) -> None:
    found = faults({**HELLO, "resources": {"gpu_share": {**LABELLED, field: label}}})
    assert list(found) == [f"resources.gpu_share.{field}"]
    assert fault in found[f"resources.gpu_share.{field}"]


def test_labels_and_roles_do_not_go_together() -> None:
    roles = [{"name": "ps", "resources": {"cpu": 1}}]
    found = faults({**HELLO, "roles": roles, "resources": {"gpu_share": LABELLED}})
    assert set(found) == {f"resources.gpu_share.{name}" for name in ("affinity", "anti_affinity", "exclusion")}
    assert "Remove affinity, or roles." in found["resources.gpu_share.affinity"]
    of_role = faults({**HELLO, "roles": [{"name": "ps", "resources": {"gpu_share": LABELLED}}]})
    assert "A role has no labels" in of_role["roles.0.resources.gpu_share.exclusion"]


def test_replicas_are_not_both_on_one_gpu_and_spread() -> None:
    file = {"type": "inference", "name": "a", "team": "red", "image": "a/b:1", "port": 80}
    share = {"guarantee": 0.3, "memory": "1Gi", "affinity": "web"}
    asked = {**file, "resources": {"gpu_share": share}, "replicas": {"min": 1, "max": 2, "spread": "node"}}
    assert list(faults(asked)) == ["resources.gpu_share.affinity"]
    assert parse({**asked, "replicas": {"min": 1, "max": 2, "spread": "pack"}}).resources.labels == Labels("web")
