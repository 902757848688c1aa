"""What the activators add to the manifests, and that nothing is there without their image."""

from typing import Any

from controlplane.manifests import policy, system, teams
from controlplane.manifests.site import Site, TeamSpace

OFF, ON = Site(), Site(activator_image="registry.example/weft:1")


def made(site: Site) -> dict[tuple[str, str], Any]:
    every = [*system.system(site), *policy.policies(site), *teams.team(site, TeamSpace("nlp"))]
    return {(str(one["kind"]), str(one["metadata"]["name"])): one for one in every}  # type: ignore[index]


def test_without_an_image_nothing_speaks_of_activators() -> None:
    assert "activator" not in str(made(OFF))


def test_with_one_only_what_is_named_is_added_or_changed() -> None:
    off, on = made(OFF), made(ON)
    assert off.keys() <= on.keys()
    assert {key for key in off if off[key] != on[key]} == {
        ("ClusterRole", "weft-provisioner"),
        ("ValidatingAdmissionPolicy", "weft-services"),
    }
    assert on.keys() - off.keys() == {
        ("ServiceAccount", "weft-activator"),
        ("ServiceAccount", "weft-activator-switch"),
        ("ClusterRole", "weft-activator-cluster"),
        ("ClusterRole", "weft-activator-switch-cluster"),
        ("ClusterRole", "weft-activator-switch-team"),
        ("ClusterRoleBinding", "weft-activator-cluster"),
        ("ClusterRoleBinding", "weft-activator-switch-cluster"),
        ("RoleBinding", "weft-activator-switch"),
        ("Deployment", "weft-activator"),
        ("Deployment", "weft-activator-switch"),
        ("Service", "weft-activator"),
        ("NetworkPolicy", "weft-activator"),
    }


def test_what_handles_strangers_requests_may_only_read() -> None:
    rules = made(ON)["ClusterRole", "weft-activator-cluster"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    assert {one for rule in rules for one in rule["resources"]} == {"pods", "services"}
