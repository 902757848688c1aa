"""Each notebook has a host of its own below the proxy's, so that what runs in one is no part of another, or of Weft.

A browser keeps pages of different hosts apart: a notebook's pages are its users' programs, and must not act for whoever
looks at them. The host's name is made of the notebook's uid, which always fits and is never another's.
"""

import re
from urllib.parse import urlsplit
from uuid import UUID

_LABEL = re.compile(r"n-([0-9a-f]{32})")


def origin(proxy: str, notebook: UUID) -> str:
    """`https://n-….notebooks.example`, for a proxy at `https://notebooks.example`."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://n-{notebook.hex}.{parts.netloc}"


def notebook(proxy: str, host: str) -> UUID | None:
    """The notebook that a request with this Host is for; None: none."""
    label, _, rest = host.lower().partition(".")
    found = _LABEL.fullmatch(label)
    return UUID(found[1]) if found and rest == urlsplit(proxy).netloc.lower() else None


def path(asked: str) -> str:
    """Where on its host to go: a path of the notebook's own, else its beginning."""
    return asked if asked.startswith("/") and not asked.startswith(("//", "/\\")) else "/"
