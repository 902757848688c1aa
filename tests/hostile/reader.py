"""What hostile text became on a page: it may be text and harmless values, nothing else."""

import json
import re
from html.parser import HTMLParser

from tests.hostile.strings import MARK

ADDRESS = {"action", "cite", "data", "data-chart", "data-dry-run", "data-url", "formaction", "href", "manifest", "ping",
           "poster", "src", "xlink:href"}  # fmt: skip
REQUESTS = {"hx-get", "hx-post", "hx-put", "hx-patch", "hx-delete", "hx-push-url", "hx-replace-url", "sse-connect"}
VALUES = {"hx-vals", "hx-headers"}  # JSON; "js:" before it would make htmx run it
CODE = re.compile(r"^(on|hx-on|hx-vars|hx-trigger|x-|@|:|style$|srcdoc$|srcset$)")
DATA_BLOCKS = {"application/json", "application/ld+json"}


def escaped(html: str) -> list[str]:
    """Where the marked text became part of the page's structure, code, or an address that leads elsewhere."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = ""  # of script or style, its type

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if MARK in tag:
            self._tell(f"<{tag}>")
        for name, value in given.items():
            self._attribute(tag, name, value)
        if tag in ("script", "style"):
            self._inside = "data" if given.get("type") in DATA_BLOCKS else tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and MARK in data:
            self._tell(f"in a {self._inside}: {data}")

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            self._tell(f"in a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        if MARK in data:
            self._tell(f"in a declaration: {data}")

    def _attribute(self, tag: str, name: str, value: str) -> None:
        if MARK in name:
            self._tell(f"<{tag} {name}>")
        if MARK not in value:
            return
        if CODE.match(name):
            self._tell(f"<{tag} {name}={value!r}>: code")
        elif name in ADDRESS | REQUESTS and _leads_away(value):
            self._tell(f"<{tag} {name}={value!r}>: another place")
        elif name in VALUES and not _is_json(value):
            self._tell(f"<{tag} {name}={value!r}>: not JSON")

    def _tell(self, what: str) -> None:
        self.found.append(f"line {self.getpos()[0]}: {what[:200]}")


def _leads_away(value: str) -> bool:
    """Whether a browser would leave Weft for it, or run it: browsers drop tabs, line breaks and leading controls."""
    seen = re.sub(r"[\t\r\n]", "", value).lstrip("".join(map(chr, range(33)))).replace("\\", "/")
    return seen.startswith("//") or not seen.startswith(("/", "?", "#"))


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
