"""Limits, credentials, sessions and the written authorization matrix."""
