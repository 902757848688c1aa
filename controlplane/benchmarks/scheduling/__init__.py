"""Benchmarks of decisions, placement and the loops."""
