"""What a team demands of what holds its shares: words of the catalogue, with commas between them in its row."""

from collections.abc import Iterable

from gpushare.backends.catalogue import DEMANDS


def words(text: str) -> tuple[str, ...]:
    """The words of a row."""
    return tuple(word for word in text.split(",") if word)


def text(given: Iterable[str]) -> str:
    """The row of these words, in the catalogue's order and each once."""
    wanted = set(given)
    return ",".join(word for word in DEMANDS if word in wanted)
