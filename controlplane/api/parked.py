"""An answer whose content comes later. Free of models, so that the entry of the server may load it before them."""

from django.http import HttpResponse


class Parked(HttpResponse):
    """The server awaits `until_told`, then has a thread call `fill`, and closes the answer in any case."""

    async def until_told(self) -> None:
        """Wait until it can be filled."""
        raise NotImplementedError

    def fill(self) -> None:
        """Give it its content."""
        raise NotImplementedError
