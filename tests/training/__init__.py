"""Trainings: what is drawn to judge the diagnosis, and what it makes of that."""
