"""Answers as JSON text."""

from collections.abc import Mapping
from typing import Any

import orjson
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder

_ENCODER = JSONEncoder()


class Renderer(JSONRenderer):
    """What the framework's own renderer gives, several times as fast."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the answer's bytes; nothing for no answer."""
        return b"" if data is None else dumps(data)


class EventStream(Renderer):
    """For views that stream events by themselves; what is refused before that is JSON as everywhere."""

    media_type = "text/event-stream"
    format = "events"


def dumps(value: Any) -> bytes:
    """JSON in UTF-8; what JSON has no word for (lazy text, times, decimals) as the framework writes it."""
    return orjson.dumps(
        value, default=_ENCODER.default, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    )
