"""Passwords by Argon2id at the least cost that OWASP recommends (Password Storage Cheat Sheet: 19 MiB, two passes).

Django's own cost is 100 MiB in eight threads: each password that anybody shows would take all cores of a small machine
for a tenth of a second, from those who are signed in. With one thread it takes one core for some 20 ms. A hash of
another cost stays good, and is made anew when its owner signs in.
"""

from django.contrib.auth.hashers import Argon2PasswordHasher


class Argon2(Argon2PasswordHasher):
    """Django's own, with its cost given here."""

    memory_cost = 19 * 1024  # KiB
    time_cost = 2  # passes over it
    parallelism = 1  # threads
