"""Tables as CSV (RFC 4180) that a spreadsheet reads as data and never as formulas."""

import csv
import io
from collections.abc import Iterable, Sequence

CONTENT_TYPE = "text/csv; charset=utf-8"
# What begins a formula in Excel, LibreOffice or Google Sheets (OWASP: CSV injection).
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The rows with a header line; None is an empty cell, a text that would be a formula gets a leading apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    """Numbers stay numbers, negative ones too; only text can be a formula."""
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(STARTS_A_FORMULA):
        return f"'{value}"
    return value
