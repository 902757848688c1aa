"""Secrets of an installation come from files: none stands in the environment of the compose file, or in the image."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
SECRET = re.compile(r"SECRET|PASSWORD|TOKEN|KEY|_URL$")
NO_SECRETS = {"PROMETHEUS_URL", "WEFT_URL", "WEFT_NOTEBOOK_URL"}  # addresses, without a password


def test_no_secret_stands_in_the_environment_of_the_compose_file() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    names = {name for service in compose["services"].values() for name in service.get("environment") or ()}
    assert "WEFT_OIDC_CLIENT_SECRET_FILE" in names
    assert {name for name in names if SECRET.search(name) and not name.endswith("_FILE")} == NO_SECRETS


def test_every_secret_that_a_service_reads_is_a_file_that_the_documents_make() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for name, service in compose["services"].items():
        read = {str(value) for key, value in (service.get("environment") or {}).items() if key.endswith("_FILE")}
        given = {f"/run/secrets/{secret}" for secret in service.get("secrets", ())}
        assert {path for path in read if path.startswith("/run/secrets/")} <= given, name
    made = (ROOT / "docs" / "production.md").read_text()
    assert all(secret.removesuffix("_database_url") in made for secret in compose["secrets"])


def test_what_is_built_takes_no_secret_along() -> None:
    left_out = (ROOT / ".dockerignore").read_text().splitlines()
    kept_from_git = (ROOT / ".gitignore").read_text().splitlines()
    assert "/secrets/" in kept_from_git
    assert {"secrets/", ".env", ".weft"} <= set(left_out)
