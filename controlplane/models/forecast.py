"""When waiting workloads are expected to start, and what became of it. Cluster-clock seconds."""

from django.db import models


class StartForecast(models.Model):
    """One wait: as it was predicted when it began, as it is told now, and as it was. The newest wait of a workload."""

    workload = models.UUIDField(primary_key=True)
    asked_at = models.FloatField(help_text="When it was first predicted")
    low = models.FloatField(null=True, help_text="Seconds from then, uncorrected; one start in ten is sooner")
    median = models.FloatField(null=True)
    high = models.FloatField(null=True, help_text="One start in ten is later")
    first_high = models.FloatField(null=True, help_text="Cluster clock: the end of the interval that was told first")
    told_at = models.FloatField(help_text="When what is told was worked out")
    told_low = models.FloatField(null=True, help_text="Cluster clock; null: not known")
    told_median = models.FloatField(null=True)
    told_high = models.FloatField(null=True)
    waited = models.FloatField(null=True, help_text="Seconds from asked_at to the start; null while it waits")
    ended_at = models.FloatField(null=True, help_text="When it started")

    class Meta:
        indexes = [models.Index(fields=["-ended_at"])]

    def __str__(self) -> str:
        return f"{self.workload} asked at {self.asked_at:.0f}"
