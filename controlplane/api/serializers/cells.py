"""Answers about cells, for the OpenAPI document; queries.cells.overview finds what they tell."""

from rest_framework import serializers as s

from controlplane.api.serializers.workloads import Answer, Page
from controlplane.queries.cells.overview import Deciding


class Decider(Answer):
    """Who decides for a cell, and how it fares."""

    state = s.ChoiceField(
        [one.value for one in Deciding],
        help_text="taken-over: by a worker that has not completed a round there yet; late: no round for too long; "
        "none: no worker has the lease.",
    )
    holder = s.CharField(allow_null=True, help_text="The worker that has the lease; null for all but platform admins.")
    seconds_since_round = s.FloatField(
        allow_null=True, help_text="Real time since its last complete round; null before."
    )
    round_ms = s.FloatField(help_text="How long that round took.")
    error = s.CharField(allow_null=True, help_text="Why the newest round was not complete; for platform admins.")


class CellQuota(Answer):
    """A cell's part of a team's quota in a pool beside the whole of it, milli-GPU; null = no limit."""

    team = s.CharField()
    pool = s.CharField()
    nominal_milli = s.IntegerField()
    borrowing_limit_milli = s.IntegerField(allow_null=True)
    lending_limit_milli = s.IntegerField(allow_null=True)
    quota_nominal_milli = s.IntegerField(help_text="Of all cells together.")
    quota_borrowing_limit_milli = s.IntegerField(allow_null=True, help_text="Of all cells together.")


class Cell(Answer):
    """A cell: its nodes, what is allocated there (milli-GPU), its workloads, its decider and its parts of quotas."""

    name = s.CharField()
    node_pools = s.ListField(child=s.CharField(), help_text="In which it has nodes.")
    racks = s.ListField(child=s.CharField(), help_text="In which it has nodes.")
    nodes = s.IntegerField()
    capacity_milli = s.IntegerField(help_text="Healthy GPUs of nodes that are ready.")
    allocated_milli = s.IntegerField()
    running = s.IntegerField(help_text="Workloads of all teams.")
    waiting = s.IntegerField(help_text="Workloads of all teams.")
    decider = Decider()
    quotas = CellQuota(many=True, help_text="Of the teams that the asker may see.")


class CellList(Page):
    """The cells; none where the cluster is one cell."""

    results = Cell(many=True)
