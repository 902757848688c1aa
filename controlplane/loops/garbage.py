"""How often a process that turns the loops looks for garbage."""

import gc

# Rows, pods and JSON come and go by the ten thousand, hardly any of them in cycles: looking every 700 new objects, as
# Python does by default, takes a sixth of a busy loop's time.
THRESHOLDS = (20_000, 20, 50)


def collect_less_often() -> None:
    """Set it for this process."""
    gc.set_threshold(*THRESHOLDS)
