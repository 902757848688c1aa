"""Addresses of servers, as people give them."""

from urllib.parse import urlsplit

from weft.errors import WeftError

PREFIX = "/api/v1"


def normalise_url(url: str) -> str:
    """Return scheme, host and path of a server's address, without the API's own path."""
    text = url.strip().rstrip("/").removesuffix(PREFIX)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise WeftError(f"{url!r} is not an address: {error}. Give one such as https://weft.example.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise WeftError(f"{url!r} is not an address of a server. Give one such as https://weft.example.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise WeftError(f"The address may hold no user, password, ? or #. Give {parts.scheme}://{parts.hostname}.")
    return text
