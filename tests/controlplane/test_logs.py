"""What strangers make the logs say: little, no trace, no query and no token; and no trace shows what variables held."""

import io
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from controlplane.models import AuditEntry
from controlplane.runtime.logformat import logging_of

TOKEN = "weft_" + "a" * 43
pytestmark = pytest.mark.django_db


@pytest.fixture(params=[True, False], ids=["json", "console"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged, as production or `make up` would write it."""
    written = io.StringIO()
    configured = logging_of(json=request.param, level="INFO")
    configured["handlers"]["stderr"]["stream"] = written
    logging.config.dictConfig(configured)
    yield written
    logging.config.dictConfig(settings.LOGGING)


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/login/?" + "a=1&" * 7_000, {}, 400),
        ("/api/v1/schema?" + "a=1&" * 7_000, {}, 400),
        ("/login/", {"HTTP_HOST": "x" * 30_000}, 400),
        ("/" + "x" * 30_000, {}, 404),
        (f"/api/v1/tokens/{TOKEN}?code={TOKEN}", {}, 404),
        (f"/sso/sso/callback/?code={TOKEN}&state=secretstate", {}, 404),
    ],
)
def test_a_refused_request_leaves_a_short_line_without_trace_query_and_token(
    log: io.StringIO, path: str, given: dict[str, Any], status: int
) -> None:
    client = Client(raise_request_exception=False)
    assert client.get(path, **given).status_code == status
    text = log.getvalue()
    assert "GET /" in text
    assert len(text) < 6_000, len(text)
    assert "Traceback" not in text
    assert "locals" not in text
    assert "aaaaaaaa" not in text
    assert "secretstate" not in text
    assert "a=1&a=1" not in text


def test_a_trace_shows_no_variables(log: io.StringIO) -> None:
    hunter = "hunter2" * 3
    try:
        raise RuntimeError(f"a fault at {TOKEN}")
    except RuntimeError:
        logging.getLogger("controlplane.x").error("failed", exc_info=True)
    assert hunter
    text = log.getvalue()
    assert "RuntimeError: a fault at weft_***" in text
    assert "hunter2hunter2" not in text


def test_the_audit_log_keeps_no_token_that_stood_in_an_address() -> None:
    for path in (f"/api/v1/tokens/{TOKEN}", f"/{TOKEN}", "/notices/unsubscribe/signed:secretlink"):
        Client().post(path)
    kept = " ".join(AuditEntry.objects.values_list("path", flat=True))
    assert "weft_***" in kept
    assert "aaaa" not in kept
    assert "secretlink" not in kept
