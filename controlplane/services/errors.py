"""How a service says no."""


class Refused(Exception):  # noqa: N818 - reads as the fact it is
    """A refusal that was to be expected: the HTTP status it means, a code for machines, the field and the sentence.

    field is dotted (`workers.min`); empty means the request as a whole. The message says what is wrong and what to do.
    """

    def __init__(self, status: int, code: str, field: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.message = message
