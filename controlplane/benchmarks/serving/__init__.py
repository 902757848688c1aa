"""Benchmarks of pages, the API and streams."""
