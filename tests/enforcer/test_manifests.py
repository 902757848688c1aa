"""What our back-end adds to the manifests, and that nothing is there without its image."""

from typing import Any

from controlplane.manifests import enforcer, policy, system
from controlplane.manifests.site import Site

OFF, ON = Site(), Site(enforcer_image="registry.example/weft:1")


def made(site: Site) -> dict[tuple[str, str], Any]:
    every = [*system.system(site), *policy.policies(site)]
    return {(str(one["kind"]), str(one["metadata"]["name"])): one for one in every}  # type: ignore[index]


def test_with_an_image_what_is_named_is_added_and_nothing_is_changed() -> None:
    off, on = made(OFF), made(ON)
    assert {key: on[key] for key in off} == off
    assert on.keys() - off.keys() == {
        ("Namespace", "gpus-of-weft"),
        ("ServiceAccount", "weft-enforcer"),
        ("ClusterRole", "weft-enforcer"),
        ("ClusterRoleBinding", "weft-enforcer"),
        ("DaemonSet", "weft-enforcer"),
        ("NetworkPolicy", "weft-enforcer"),
    }


def test_it_may_read_pods_and_nothing_else() -> None:
    rules = made(ON)["ClusterRole", "weft-enforcer"]["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]


def test_its_containers_gain_nothing_but_folders_of_the_node() -> None:
    spec = made(ON)["DaemonSet", "weft-enforcer"]["spec"]["template"]["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert sorted(one["hostPath"]["path"] for one in spec["volumes"]) == sorted(enforcer.FOLDERS.values())
    assert "hostNetwork" not in spec
    assert spec["nodeSelector"] == {"weft.dev/shares": "true"}
