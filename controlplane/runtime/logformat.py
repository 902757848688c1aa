"""How log lines look: one JSON object a line in production, a readable line elsewhere. Secrets never stand in them."""

import logging
import re
from collections.abc import MutableMapping
from typing import Any

import structlog

from controlplane.runtime.logfilter import Requests
from controlplane.security.secretless import without_tokens

SECRET = re.compile(r"password|secret|token|authorization|cookie|api_key", re.IGNORECASE)
MAX_TEXT = 2000  # characters of a value; a trace, which our own code makes, is as long as it is
TRACE = "exception"
# The password of an address such as postgres://weft:PASSWORD@host/weft, wherever it stands in a text.
_IN_ADDRESS = re.compile(r"(://[^\s:/@]*:)[^\s@/]+@")


def hide_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put *** in the place of values whose name says that they are secret, of tokens, and of passwords in addresses.

    Values are cut to MAX_TEXT: strangers write some of them.
    """
    for name, value in event.items():
        if SECRET.search(name):
            event[name] = "***"
        elif isinstance(value, str):
            event[name] = _bare(value if name == TRACE else value[:MAX_TEXT])
    return event


def _bare(text: str) -> str:
    return without_tokens(_IN_ADDRESS.sub(r"\1***@", text) if "://" in text else text)


def logging_of(*, json: bool, level: str) -> dict[str, Any]:
    """The `LOGGING` setting; also sends what structlog is given the same way."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.captureWarnings(json)  # Python's own warnings are lines like any other
    # An exception's text stands in the same object, so that one event is one line.
    last: list[Any] = [structlog.processors.format_exc_info, hide_secrets, structlog.processors.JSONRenderer()]
    if not json:
        # Rich would write what all variables hold, secrets too, and takes seconds for a long one.
        console = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
        last = [structlog.processors.format_exc_info, hide_secrets, console]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*shared, structlog.stdlib.ExtraAdder()],
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            }
        },
        "filters": {"requests": {"()": Requests}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured", "filters": ["requests"]}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.request": {"handlers": [], "filters": ["requests"], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "celery.app.trace": {"level": "WARNING"},  # two lines for each hint otherwise
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},
        },
    }
