"""Why the API itself refuses a request. Free of the framework, whose settings load the parser that raises these."""

from collections.abc import Iterable

from controlplane.jobspec.shapes import FieldError


class Faulty(Exception):  # noqa: N818 - reads as the fact it is
    """A request with faults of its own: 400, or another status."""

    status = 400

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__(" ".join(error.message for error in self.errors))


class BadBody(Faulty):
    """A body that cannot be read."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__([FieldError(field, message)])


class TooLarge(Faulty):
    """A body over the limit."""

    status = 413

    def __init__(self, message: str) -> None:
        super().__init__([FieldError("", message)])


class Unavailable(Exception):  # noqa: N818
    """Something this needs does not answer: 503, with a code of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
