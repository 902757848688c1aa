"""Reports, for the OpenAPI document; queries.reports builds them."""

from typing import Any

from rest_framework import serializers as s

from autoscaler.latency import MEASURES
from controlplane.api.renamed import renamed
from controlplane.api.serializers.workloads import Answer


@renamed(held_gpu_hours="allocated_gpu_hours")
class UsageLine(Answer):
    """What one combination of the dimensions used in one step, and what it cost at the pools' present prices."""

    start = s.DateTimeField()
    team = s.CharField(required=False)
    user = s.CharField(required=False, allow_blank=True)
    pool = s.CharField(required=False)
    allocated_gpu_hours = s.FloatField()
    computed_gpu_hours = s.FloatField()
    idle_gpu_hours = s.FloatField()
    cost = s.FloatField(allow_null=True, help_text="Null where it is a team's that you have no role in.")


class KeptLine(Answer):
    """How many requests of one service were within its objective."""

    team = s.CharField()
    service = s.CharField()
    workload = s.UUIDField()
    availability_target = s.FloatField()
    p95_target_seconds = s.FloatField(allow_null=True)
    requests = s.IntegerField()
    over_objective = s.IntegerField()
    attainment = s.FloatField(allow_null=True)
    p95_of = s.ChoiceField(MEASURES, help_text="What the p95 is measured on: the whole answer or its first token.")


class ServiceLine(KeptLine):
    """How one service kept its objective. Parts of 1; null = it had no requests."""

    budget_left = s.FloatField(allow_null=True, help_text="Below 0: more went wrong than may.")
    is_kept = s.BooleanField(allow_null=True)


class MonthLine(KeptLine):
    """How one service kept its objective in a month. Parts of 1; null = not known."""

    is_kept = s.BooleanField(allow_null=True)
    budget_left = s.FloatField(allow_null=True, help_text="At the month's end; below 0: more went wrong than may.")
    met_minutes = s.IntegerField()
    at_risk_minutes = s.IntegerField()
    violated_minutes = s.IntegerField()
    not_known_minutes = s.IntegerField()
    allocated_gpu_hours = s.FloatField()
    worst_minute = s.DateTimeField(allow_null=True, help_text="In which most requests were late; null: none was.")
    worst_minute_requests = s.IntegerField(allow_null=True)
    worst_minute_over_objective = s.IntegerField(allow_null=True)


class MonthTotal(Answer):
    """A team's services in a month together."""

    team = s.CharField()
    services = s.IntegerField()
    services_kept = s.IntegerField(help_text="Of services_known: those that kept their objectives.")
    services_known = s.IntegerField(help_text="Services that had requests.")
    requests = s.IntegerField()
    over_objective = s.IntegerField()
    attainment = s.FloatField(allow_null=True)
    met_minutes = s.IntegerField()
    at_risk_minutes = s.IntegerField()
    violated_minutes = s.IntegerField()
    not_known_minutes = s.IntegerField()
    allocated_gpu_hours = s.FloatField()


class MonthReport(Answer):
    """Objectives in a calendar month."""

    month = s.CharField()
    to = s.DateTimeField()
    noted_until = s.DateTimeField(allow_null=True, help_text="Up to here the month is in the report.")
    teams = MonthTotal(many=True)
    rows = MonthLine(many=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language."""
        return {"from": s.DateTimeField(), **super().get_fields()}


class UsageReport(Answer):
    """GPU hours of a period."""

    to = s.DateTimeField()
    rows = UsageLine(many=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language."""
        return {"from": s.DateTimeField(), **super().get_fields()}


class SloReport(Answer):
    """Objectives over a period."""

    to = s.DateTimeField()
    rows = ServiceLine(many=True)

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language."""
        return {"from": s.DateTimeField(), **super().get_fields()}
