"""Which names people may have. Pure.

ASCII only: two names that look alike are then written alike, as far as letters of other alphabets and marks that turn
the direction of text go (Unicode TR 36). Capitals count when a name is compared with those there are.
"""

import re
import string
import unicodedata

MAX_LENGTH = 150
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.@+-]*[A-Za-z0-9_])?")
_IN_NAMES = frozenset(f"{string.ascii_letters}{string.digits}_.@+-")  # `/` is a service account's


def username_fault(name: str) -> str:
    """Why this is no user name; empty if it is one."""
    if len(name) <= MAX_LENGTH and _NAME.fullmatch(name):
        return ""
    return (
        f"A user name has at most {MAX_LENGTH} of a-z, A-Z, 0-9, _, ., @, + and -, begins with a letter or a digit "
        "and ends with a letter, a digit or _. Choose such a name."
    )


def username_of(text: str, length: int = 120) -> str:
    """The user name that is nearest to what an identity provider calls somebody: letters lose their accents."""
    plain = unicodedata.normalize("NFKD", text)
    bare = "".join(letter for letter in plain if not unicodedata.combining(letter))
    words = "".join(letter if letter in _IN_NAMES else " " for letter in bare).split()
    return "-".join(words)[:length].strip(".@+-_") or "user"
