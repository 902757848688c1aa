"""How log lines look: one JSON object a line in production, a readable line elsewhere. Secrets never stand in them."""

import logging
import re
from collections.abc import MutableMapping
from typing import Any

import structlog

from controlplane.logfilter import WithoutTraceOfRefusals

SECRET = re.compile(r"password|secret|token|authorization|cookie|api_key", re.IGNORECASE)
# The password of an address such as postgres://weft:PASSWORD@host/weft, wherever it stands in a text.
_IN_ADDRESS = re.compile(r"(://[^\s:/@]*:)[^\s@/]+@")


def hide_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put *** in the place of values whose name says that they are secret, and of passwords in addresses."""
    for name, value in event.items():
        if SECRET.search(name):
            event[name] = "***"
        elif isinstance(value, str) and "://" in value:
            event[name] = _IN_ADDRESS.sub(r"\1***@", value)
    return event


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
        last = [hide_secrets, structlog.dev.ConsoleRenderer(colors=False)]
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
        "filters": {"refusals": {"()": WithoutTraceOfRefusals}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.request": {"handlers": [], "filters": ["refusals"], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "celery.app.trace": {"level": "WARNING"},  # two lines for each hint otherwise
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},
        },
    }
