"""Passwords by Argon2, computed by threads that come last: a password may wait, those who are signed in need not.

One hash takes two cores for a tenth of a second, on purpose. The interpreter is free meanwhile, but the cores are not.
"""

import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from django.contrib.auth.hashers import Argon2PasswordHasher

AT_ONCE = 2
LAST = 19  # nice(2): as long as anything else wants the core, it gets nearly all of it


class Argon2Aside(Argon2PasswordHasher):
    """Django's own, in a thread of lower priority; what is stored is the same."""

    def encode(self, password: str, salt: str) -> str:
        """The hash of a password."""
        return _threads().submit(super().encode, password, salt).result()

    def verify(self, password: str, encoded: str) -> bool:
        """Whether it is the password of this hash."""
        return _threads().submit(super().verify, password, encoded).result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords", initializer=_come_last)


def _come_last() -> None:
    """Lower this thread's priority, which those that Argon2 starts inherit. Linux has one for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LAST)
