"""How often a process of ours looks for garbage."""

import gc

# Rows, pods and JSON come and go by the ten thousand, hardly any of them in cycles: looking every 700 new objects, as
# Python does by default, takes a sixth of a busy loop's time, and as much of a request's.
THRESHOLDS = (20_000, 20, 50)


def collect_less_often() -> None:
    """Set it for this process, and leave out what has been there since its start."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
