"""A header that Django's readers raise for is refused, and is no fault of the server."""

import asyncio
from typing import Any

import httpx
import pytest
from django.test.utils import override_settings

from controlplane.asgi import Handler


def answer(header: str, kind: bytes) -> httpx.Response:
    """What a request with such a header gets from the application as the server runs it."""

    async def asked() -> httpx.Response:
        handler = Handler()
        handler.load_middleware()
        app: Any = handler
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.post("/", content=b"a=b", headers={header.encode(): kind})

    with override_settings(MIDDLEWARE=[]):
        return asyncio.run(asked())


@pytest.mark.parametrize("header", ["Content-Type", "Accept"])
@pytest.mark.parametrize(
    "kind", [b"text/plain; a*=no-such-charset''b", b"text/plain; a*=\xff''b", b"a/b; c*1*=\"x''%ff\"; c*0=1"]
)
def test_a_media_type_that_cannot_be_read_is_refused(header: str, kind: bytes) -> None:
    refused = answer(header, kind)
    assert refused.status_code == 400
    assert "cannot be read" in refused.text
