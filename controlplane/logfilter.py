"""What is left out of the logs: the trace of a request that was refused on purpose."""

import logging


class WithoutTraceOfRefusals(logging.Filter):
    """Keep the line of a refused request, status below 500, and drop its trace: nothing is wrong with the program."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record."""
        if getattr(record, "status_code", 500) < 500:
            record.exc_info = record.exc_text = None
        return True
