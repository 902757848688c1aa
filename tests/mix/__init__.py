"""Notebooks, a service and trainings on one cluster: the engine, the baselines, the figure."""
