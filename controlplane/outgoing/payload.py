"""What is said of a matter: to a webhook as JSON, to Slack as its text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings

from controlplane.jobspec.quantities import iso

VERSION = 1  # of the body; fields may be added without a new one


@dataclass(frozen=True, slots=True)
class Said:
    """One matter in words and values. `cluster_at` is the cluster's clock; `page` a path of ours."""

    key: str
    matter: str
    team: str
    title: str
    message: str
    cluster_at: float
    page: str
    workload: UUID | None = None
    name: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def link(self) -> str:
        """The page's address; empty where the installation does not know its own (WEFT_URL)."""
        return link(self.page)


def link(page: str) -> str:
    """The full address of a page of ours; empty where the installation does not know its own."""
    return f"{settings.PUBLIC_URL}{page}" if settings.PUBLIC_URL else ""


def body(format_: str, said: Said) -> str:
    """The body of a webhook's request in its format."""
    made = _slack(said) if format_ == "slack" else _weft(said)
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def _weft(said: Said) -> dict[str, Any]:
    return {
        "version": VERSION,
        "key": said.key,
        "event_type": said.matter,
        "matter": said.matter,  # the name before 0.1: read until 0.2
        "team": said.team,
        "workload": None if said.workload is None else {"uid": str(said.workload), "name": said.name},
        "title": said.title,
        "message": said.message,
        "cluster_at": iso(said.cluster_at),
        "link": said.link or None,
        "data": dict(said.data),
    }


def _slack(said: Said) -> dict[str, Any]:
    title = _escaped(said.title)
    heading = f"<{said.link}|{title}>" if said.link else title
    lines = [f"*{heading}*", _escaped(said.message)] if said.message else [f"*{heading}*"]
    return {
        "text": title,
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)}}],
    }


def _escaped(text: str) -> str:
    """Text in which nothing is a link or a mention (Slack: only these three are to be escaped)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
