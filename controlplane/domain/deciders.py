"""What the decider of each cell is called: its lease, and the row that its newest full round leaves."""

SCHEDULE = "schedule"


def decider_of(cell: str) -> str:
    """The name of a cell's decider; that of the rest is the name of the one decider of a cluster that is one cell."""
    return f"{SCHEDULE}/{cell}" if cell else SCHEDULE


def is_decider(name: str) -> bool:
    """Whether this is a decider's name, of whichever cell."""
    return name == SCHEDULE or name.startswith(f"{SCHEDULE}/")
