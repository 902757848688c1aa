"""The compose file's services as pods, and the Dockerfile's steps as an image's settings."""

import pytest

from controlplane.testbed import compose
from controlplane.testbed.realnode import composed, ourimage

SERVICES = compose.services()
TEXT = ourimage.FILE.read_text()


@pytest.mark.parametrize("name", compose.OURS)
def test_a_pod_has_the_fences_of_the_service(name: str) -> None:
    made = composed.pod(name, SERVICES[name], node="n", home=compose.ROOT)
    (container,) = made["spec"]["containers"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
    }
    env = {one["name"]: one["value"] for one in container["env"]}
    assert env.keys() == SERVICES[name]["environment"].keys()
    assert (env["CLUSTER"], env["PROMETHEUS_URL"]) == ("simulated", "")
    (held,) = (one["secret"]["items"] for one in made["spec"]["volumes"] if "secret" in one)
    assert [one["key"] for one in held] == SERVICES[name]["secrets"]
    assert made["spec"]["restartPolicy"] == ("Never" if name == "install" else "Always")


def test_a_pod_is_ready_by_the_health_check_of_the_service() -> None:
    probe = composed.pod("web", SERVICES["web"], node="n", home=compose.ROOT)["spec"]["containers"][0]["readinessProbe"]
    check = SERVICES["web"]["healthcheck"]
    assert probe["exec"]["command"] == check["test"][1:]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (5, 12)


def test_the_image_is_what_the_last_stage_says() -> None:
    build, last = ourimage.stages(TEXT)
    settings = ourimage.settings_of(last)
    assert settings["User"] == "10001:10001"
    assert settings["Cmd"][:2] == ["uvicorn", "controlplane.asgi:application"]
    said = dict(pair.split("=", 1) for pair in settings["Env"])
    assert {name: value for name, value in said.items() if name != "PATH"} == compose.image_environment()
    assert said["PATH"].startswith("/opt/weft/bin:")
    assert [step.word for step in build] == ["WORKDIR", "RUN", "RUN", "COPY", "RUN", "COPY", "RUN"]
