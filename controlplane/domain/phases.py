"""Phases as statements name them: in one order, so that one statement is one text."""

from scheduler.model.workload import ENDED, Phase

LIVE = tuple(phase for phase in Phase if phase not in ENDED)
