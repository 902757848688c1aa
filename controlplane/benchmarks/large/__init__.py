"""Rounds on a cluster of 50,000 GPUs."""
