"""What a process of ours asks of its interpreter: how often it looks for garbage, and how often threads take turns."""

import gc
import sys

# Rows, pods and JSON come and go by the ten thousand, hardly any of them in cycles: looking every 700 new objects, as
# Python does by default, takes a sixth of a busy loop's time, and as much of a request's.
THRESHOLDS = (20_000, 20, 50)
# A thread that comes back from the database waits for the interpreter until the one that computes has had its turn:
# with Python's 5 ms, and half a dozen statements in a request or a round, mostly for nothing.
SWITCH_SECONDS = 0.0005


def tune() -> None:
    """Set it for this process; what has been there since its start is left out of the search for garbage."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
