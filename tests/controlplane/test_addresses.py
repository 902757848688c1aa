"""Where notebooks and services are reached."""

import pytest

from controlplane.domain import addresses

UID = "0c8a41d6-5f3e-4a5e-9d5b-0a5bd50d4f4b"


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ({"type": "notebook", "name": "explore"}, "http://explore.weft-nlp.svc:8888"),
        ({"type": "notebook", "name": "explore", "ports": [80, 90]}, "http://explore.weft-nlp.svc:80"),
        ({"type": "inference", "name": "chat", "port": 8000}, "http://chat.weft-nlp.svc:8000"),
        ({"type": "inference", "name": "7b", "port": 8000}, f"http://w-{UID}.weft-nlp.svc:8000"),
        ({"type": "inference", "name": "w-x", "port": 8000}, f"http://w-{UID}.weft-nlp.svc:8000"),
        ({"type": "training", "name": "bert", "ports": [80]}, None),
        ({}, None),
    ],
)
def test_an_address_is_that_of_the_service_in_the_teams_namespace(spec, address):
    assert addresses.of(UID, "nlp", spec) == address


def test_the_prefix_of_namespaces_is_a_setting():
    spec = {"type": "notebook", "name": "explore"}
    assert addresses.of(UID, "nlp", spec, "ml-") == "http://explore.ml-nlp.svc:8888"
