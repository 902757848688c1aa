"""Workloads from submission to their end, as people and steps change them."""
