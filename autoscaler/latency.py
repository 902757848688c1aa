"""The latency that a service promises, and what it is measured on: a request's whole answer, or its first token."""

from dataclasses import dataclass

ANSWER = "answer"  # from a request's coming to the end of its answer
FIRST_TOKEN = "first_token"  # noqa: S105 - from its coming to the first part of its answer
MEASURES = (ANSWER, FIRST_TOKEN)


@dataclass(frozen=True, slots=True)
class Within:
    """So many seconds, wait included, until what is promised of a request is there: one of MEASURES."""

    seconds: float
    of: str = ANSWER

    @property
    def is_first_token(self) -> bool:
        """Whether it is a request's first token that counts."""
        return self.of == FIRST_TOKEN
