"""What the notebooks' proxy adds to the manifests: what it may reach and ask, and that nothing is there without it."""

from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError

from controlplane.manifests import policy, system, teams
from controlplane.manifests.site import Site, TeamSpace
from controlplane.notebookproxy.doors import ServiceDoors
from tests.notebookproxy.rig import seat

OFF = Site()
ON = Site(
    notebook_proxy_image="registry.example/weft:1", url="https://weft.example",
    notebook_url="https://notebooks.example", database=("10.9.0.0/16",),
)  # fmt: skip


def made(site: Site) -> dict[tuple[str, str], Any]:
    every = [*system.system(site), *policy.policies(site), *teams.team(site, TeamSpace("nlp"))]
    return {(str(one["kind"]), str(one["metadata"]["name"])): one for one in every}  # type: ignore[index]


def test_with_an_image_only_the_proxy_is_added_and_nothing_is_changed() -> None:
    off, on = made(OFF), made(ON)
    assert {key for key in off if off[key] != on[key]} == set()
    assert on.keys() - off.keys() == {
        *((kind, "weft-notebooks") for kind in ("ServiceAccount", "Deployment", "Service", "PodDisruptionBudget")),
        ("NetworkPolicy", "weft-notebooks"),
    }
    assert not [key for key in on if "Role" in key[0] and "notebooks" in str(on[key])]  # it may ask Kubernetes nothing


def test_in_a_team_the_proxy_reaches_the_port_of_notebooks_and_no_other_pod() -> None:
    (entrance,) = [one for one in teams.team(ON, TeamSpace("nlp")) if one["metadata"]["name"] == "weft-notebooks"]  # type: ignore[index]
    assert entrance["metadata"]["namespace"] == "weft-nlp"  # type: ignore[index]
    spec: Any = entrance["spec"]
    assert spec["podSelector"]["matchLabels"] == {"weft.dev/kind": "notebook"}
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8888}]
    (proxy,) = rule["from"]
    assert proxy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "weft-notebooks"}
    assert proxy["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "weft"}


def test_out_of_the_proxy_there_is_a_way_to_notebooks_the_database_and_dns_only() -> None:
    system_ = {(one["kind"], one["metadata"]["name"]): one for one in system.system(ON)}  # type: ignore[index]
    spec: Any = system_["NetworkPolicy", "weft-notebooks"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    notebooks, database, dns = spec["egress"]
    assert notebooks["ports"] == [{"protocol": "TCP", "port": 8888}]
    assert notebooks["to"][0]["podSelector"]["matchLabels"] == {"weft.dev/kind": "notebook"}
    assert database["to"] == [{"podSelector": {}}, {"ipBlock": {"cidr": "10.9.0.0/16"}}]
    assert {one["port"] for one in dns["ports"]} == {53}


def test_two_run_without_root_without_a_token_and_on_a_file_system_that_is_read_only() -> None:
    spec = made(ON)["Deployment", "weft-notebooks"]["spec"]
    pod, (container,) = spec["template"]["spec"], spec["template"]["spec"]["containers"]
    assert (spec["replicas"], pod["automountServiceAccountToken"]) == (2, False)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"]["path"] == container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    told = {one["name"]: one["value"] for one in container["env"]}
    assert (told["WEFT_URL"], told["WEFT_NOTEBOOK_URL"]) == ("https://weft.example", "https://notebooks.example")
    assert not any("postgres" in value for value in told.values())  # what is secret comes as files
    assert "--services" in container["command"]


def test_a_notebook_is_found_by_the_name_of_its_service() -> None:
    assert ServiceDoors("weft-").address(seat(name="plots")) == "plots.weft-nlp.svc:8888"
    odd = seat(name="9-plots")
    assert ServiceDoors("weft-").address(odd) == f"w-{odd.notebook}.weft-nlp.svc:8888"


def test_an_image_without_the_addresses_is_refused_with_the_one_that_is_missing(settings: Any, capsys: Any) -> None:
    settings.NOTEBOOK_PROXY_IMAGE, settings.NOTEBOOK_URL, settings.PUBLIC_URL = "registry.example/weft:1", "", ""
    with pytest.raises(CommandError, match="WEFT_NOTEBOOK_PROXY_IMAGE needs WEFT_NOTEBOOK_URL"):
        call_command("manifests", "system")
    settings.NOTEBOOK_URL = "https://notebooks.example"
    with pytest.raises(CommandError, match="needs WEFT_URL"):
        call_command("manifests", "system")
    settings.PUBLIC_URL = "https://weft.example"
    call_command("manifests", "system", "--database", "10.9.0.0/16")
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    (policy_,) = [one for one in found if (one["kind"], one["metadata"]["name"]) == ("NetworkPolicy", "weft-notebooks")]
    assert {"ipBlock": {"cidr": "10.9.0.0/16"}} in policy_["spec"]["egress"][1]["to"]
