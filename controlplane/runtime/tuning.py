"""What a process of ours asks of its interpreter: how often it looks for garbage, and how often threads take turns."""

import gc
import sys

# Rows, pods and JSON come and go by the ten thousand, hardly any of them in cycles: looking every 700 new objects, as
# Python does by default, takes a sixth of a busy loop's time, and as much of a request's.
THRESHOLDS = (20_000, 20, 50)
# A thread that comes back from the database waits for the interpreter until the one that computes has had its turn, a
# dozen times in a request, and works for a tenth of a millisecond between two of them: with turns much longer than
# that, requests get too small a part while a round computes, and queue up until it is over.
SWITCH_SECONDS = 0.0001


def collect_less_often() -> None:
    """Set it for this process, and leave out what has been there since its start."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def take_turns_often() -> None:
    """Let threads of this process change places fifty times as often."""
    sys.setswitchinterval(SWITCH_SECONDS)
