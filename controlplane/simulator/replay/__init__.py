"""Replays of recorded or drawn work, without a database."""
