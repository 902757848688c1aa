"""Names of workloads in sentences, filled in for one reader: other teams' workloads are counted, never named.

What is decided speaks of workloads by id (scheduler/model/mention.py), and is stored so. A name is put in only where a
sentence leaves the server, with the rights of its reader: what forgets to do so shows ids.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from controlplane.models import Workload, bulk
from controlplane.queries.accounts import access
from scheduler.model.mention import MENTION, OPEN, mentioned, named, words

Seen = Collection[str] | None  # the teams whose workloads a reader may see; None: all
Names = Mapping[str, tuple[str, str]]  # (team, `team/name`) by id

MAX_LOOKED_UP = 2_000  # in one answer; a page has hundreds, and a log may hold whatever its program prints
_MARK = OPEN.encode()
_MENTION = re.compile(MENTION.pattern.encode())
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # what needs no escape in HTML, JSON, CSV and a mail


def seen_by(user: access.Person) -> Seen:
    """The teams whose workloads this user may see, with the token that the request came with."""
    return None if access.is_platform_admin(user) else frozenset(access.team_names(user))


def names_in(texts: Iterable[str]) -> Names:
    """What the texts mention, visible to the reader or not: for `told`. At most one query."""
    found: dict[str, tuple[str, str]] = {}
    uids = sorted({uid for text in texts if OPEN in text for uid in mentioned(text) if _is_id(uid)})[:MAX_LOOKED_UP]
    for part in bulk.chunks(uids):
        rows = bulk.select(Workload, ("uid", "name", "team__name"), {"uid__among": part})
        found |= {str(uid): (team, f"{team}/{name}") for uid, name, team in rows if _is_plain(team, name)}
    return found


def told(text: str, names: Names, seen: Seen) -> str:
    """One text as someone reads it who sees these teams."""
    return named(text, {uid: name for uid, (team, name) in names.items() if seen is None or team in seen})


def each(texts: Sequence[tuple[str, Seen]]) -> list[str]:
    """Texts, each with the teams that its reader sees. One query at most."""
    names = names_in(text for text, _ in texts)
    return [told(text, names, seen) for text, seen in texts]


def document(content: bytes, user: access.Person) -> bytes:
    """An answer of any kind as this user may read it. Three queries where something is mentioned, else none."""
    if _MARK not in content:
        return content
    texts = [found[0].decode("ascii", "replace") for found in _MENTION.finditer(content)]
    every, seen = names_in(texts), seen_by(user)
    names = {uid: name for uid, (team, name) in every.items() if seen is None or team in seen}
    return _MENTION.sub(lambda found: words(found[1].decode("ascii", "replace"), names).encode(), content)


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _is_plain(*names: str) -> bool:
    return all(_PLAIN.fullmatch(name) for name in names)
