"""Presets, traces and the demo: nodes, teams and the work that comes."""
