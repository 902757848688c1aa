"""Benchmarks of faults, security and storage."""
