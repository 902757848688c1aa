"""Benchmarks drawn as one HTML page each, where the folder of the benchmark has no room for it."""
