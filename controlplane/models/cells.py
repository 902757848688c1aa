"""What each cell has of the quotas; without rows where there is one cell only."""

from django.db import models

from controlplane.models.team import Quota, Team


class QuotaPart(models.Model):
    """A cell's part of a team's quota in a pool, in milli-GPU; null = no limit.

    What all cells have together is never more than the quota: a part is raised by what others are known to have left.
    """

    quota = models.ForeignKey(Quota, on_delete=models.CASCADE, related_name="parts")
    cell = models.CharField(max_length=20, blank=True)
    nominal = models.PositiveBigIntegerField(default=0)
    borrowing_limit = models.PositiveBigIntegerField(null=True)
    lending_limit = models.PositiveBigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["quota", "cell"], name="one_part_per_quota_and_cell")]

    def __str__(self) -> str:
        return f"{self.quota} for {self.cell}"


class CellLoad(models.Model):
    """What a team's own workloads held and asked for of a pool in a cell when that was counted last, in milli-GPU."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    pool = models.CharField(max_length=63)
    cell = models.CharField(max_length=20, blank=True)
    held = models.PositiveBigIntegerField(default=0)
    asked = models.PositiveBigIntegerField(default=0)
    seq = models.PositiveBigIntegerField(default=0, help_text="The newest workload that was counted")

    def __str__(self) -> str:
        return f"{self.team} in {self.pool} of {self.cell}"
