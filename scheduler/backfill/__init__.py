"""Planned starts of the first in the queue, and what starts beside them."""
