"""The cluster as last observed. Only the observe loop and cordon write here."""

from django.db import models

from controlplane.models.team import NodePool


class ClusterState(models.Model):
    """One row: which cluster this database drives, its clock, and how far observation and arrivals have come."""

    preset = models.CharField(max_length=200, blank=True)
    is_simulated = models.BooleanField(default=True)
    now = models.FloatField(default=0, help_text="Cluster-clock seconds at the last observation")
    cursor = models.CharField(max_length=200, blank=True)
    speed = models.FloatField(default=60, help_text="Simulated: cluster seconds per second, at most")
    paused = models.BooleanField(default=False)
    seed = models.BigIntegerField(default=0)
    arrivals = models.PositiveBigIntegerField(default=0, help_text="How many of the preset's arrivals are submitted")
    observed_at = models.DateTimeField(null=True, help_text="Database clock of the last observation")

    def __str__(self) -> str:
        return self.preset or "cluster"


class Node(models.Model):
    """One machine."""

    name = models.CharField(max_length=253, unique=True)
    pool = models.ForeignKey(NodePool, on_delete=models.PROTECT, related_name="nodes")
    gpu_model = models.CharField(max_length=40, blank=True)
    gpu_count = models.PositiveSmallIntegerField(default=0)
    gpu_memory = models.PositiveIntegerField(default=0, help_text="MiB of each device")
    cpu_milli = models.PositiveIntegerField(default=0)
    memory = models.PositiveIntegerField(default=0, help_text="MiB")
    zone = models.CharField(max_length=63, blank=True)
    rack = models.CharField(max_length=63, blank=True)
    nvlink = models.PositiveSmallIntegerField(default=0, help_text="Devices in one NVLink domain")
    ready = models.BooleanField(default=True)
    schedulable = models.BooleanField(default=True)
    lost_gpus = models.JSONField(default=list, help_text="Indices of unhealthy devices")
    takes_shares = models.BooleanField(default=True, db_default=True, help_text="Labelled for shares of its GPUs")
    enforces_limits = models.BooleanField(
        default=False, db_default=False, help_text="Something on it says that it holds a share to its limit"
    )
    enforcer = models.CharField(
        max_length=12, blank=True, default="", db_default="", help_text="Back-end of shares that its own label names"
    )

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    """One device's last measured use."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    duty = models.FloatField(null=True, help_text="0..1 of compute time over the last scrape; null = not known")
    memory_used = models.PositiveIntegerField(null=True, help_text="MiB")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "index"], name="one_row_per_gpu")]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index}"
