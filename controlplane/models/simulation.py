"""What-ifs that were asked on a page or by REST, and what came of them."""

from datetime import timedelta
from typing import ClassVar

from django.db import models

SILENT = timedelta(seconds=180)  # without a word for so long its process is dead
NO_WORD = "Its process ended without a word. Start it again, with fewer rounds or jobs."


class SimulationState(models.TextChoices):
    """How far one is."""

    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed"


class Simulation(models.Model):
    """One what-if; it changes nothing but its own row."""

    asked = models.JSONField(help_text="The request as it was read")
    author = models.CharField(max_length=150)
    at = models.DateTimeField(help_text="Database clock")
    seen_at = models.DateTimeField(help_text="Database clock: when it last told its progress")
    state = models.CharField(max_length=10, choices=SimulationState.choices, default=SimulationState.RUNNING)
    progress = models.FloatField(default=0, help_text="Part that is done, 0..1")
    doing = models.CharField(max_length=80, blank=True)
    error = models.CharField(max_length=400, blank=True)
    result = models.JSONField(null=True)

    objects: ClassVar[models.Manager["Simulation"]]

    def __str__(self) -> str:
        return f"what-if {self.pk}"
