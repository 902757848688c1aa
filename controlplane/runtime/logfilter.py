"""What a request leaves in the logs: no query, and no trace of what was refused on purpose."""

import logging

MAX_PATH = 200  # characters of an address that strangers choose


class Requests(logging.Filter):
    """Keep the line of a request; drop its trace below status 500, for nothing is wrong with the program then.

    Django adds the request itself, which is written with all of its query: an identity provider's code stands there.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record."""
        if getattr(record, "status_code", 500) < 500:
            record.exc_info = record.exc_text = None
        request = getattr(record, "request", None)
        if request is not None and not isinstance(request, str):  # a record may pass here twice
            record.request = f"{getattr(request, 'method', '')} {getattr(request, 'path', '')[:MAX_PATH]}"
        return True
