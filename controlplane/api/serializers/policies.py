"""Answers about the policy and what-ifs, for the OpenAPI document; queries build them."""

from rest_framework import serializers as s

from controlplane.api.renamed import SettingsField, renamed
from controlplane.api.serializers.workloads import Answer, Page
from controlplane.domain.policyfields import OLD_NAMES


class AnyValue(s.JSONField):
    """A number or a word."""


class SettingChange(Answer):
    """One setting that a version changed."""

    field = s.CharField()
    before = AnyValue()
    after = AnyValue()


class PolicyRow(Answer):
    """One version of the policy; at is the database's clock, null for the defaults."""

    version = s.IntegerField()
    at = s.DateTimeField(allow_null=True)
    author = s.CharField(allow_blank=True)
    comment = s.CharField(allow_blank=True)
    in_force = s.BooleanField()
    changes = SettingChange(many=True, help_text="Against the version before.")


class PolicyList(Page):
    """Versions, the newest first."""

    results = PolicyRow(many=True)


@renamed(least="min", most="max")
class PolicySetting(Answer):
    """What a setting is."""

    field = s.CharField(help_text="Dotted: scheduling.ageing_seconds.")
    default = AnyValue()
    unit = s.CharField(allow_blank=True)
    min = s.FloatField(allow_null=True)
    max = s.FloatField(allow_null=True)
    choices = s.ListField(child=s.CharField())
    about = s.CharField(allow_blank=True)


class Policy(PolicyRow):
    """One version with all its settings, and what each of them is."""

    settings = SettingsField(old_names=OLD_NAMES)
    described = PolicySetting(many=True)


class SimulationRow(Answer):
    """A what-if and how far it is; at is the database's clock."""

    id = s.IntegerField()
    asked = s.JSONField(help_text="The request.")
    author = s.CharField()
    at = s.DateTimeField()
    state = s.ChoiceField(["Running", "Done", "Failed"])
    progress = s.FloatField(help_text="0..1.")
    doing = s.CharField(allow_blank=True)
    error = s.CharField(allow_blank=True)


class SimulationList(Page):
    """What-ifs, the newest first."""

    results = SimulationRow(many=True)


class QuotaChange(Answer):
    """One figure of a quota that a what-if had otherwise."""

    team = s.CharField()
    pool = s.CharField()
    field = s.CharField()
    before = s.IntegerField(allow_null=True)
    after = s.IntegerField(allow_null=True)


@renamed(held_gpu_hours="allocated_gpu_hours")
class SimulationFigures(Answer):
    """One team's figures, or how they differ; null is not known."""

    jobs = s.FloatField()
    started = s.FloatField()
    ended = s.FloatField()
    wait_p50_seconds = s.FloatField(allow_null=True, help_text="To the first start, or to the end.")
    wait_p95_seconds = s.FloatField(allow_null=True)
    preemptions = s.FloatField()
    moves = s.FloatField()
    lost_gpu_hours = s.FloatField()
    allocated_gpu_hours = s.FloatField()
    used_gpu_hours = s.FloatField()
    utilisation_percent = s.FloatField()
    requests = s.FloatField(allow_null=True, help_text="To services with known traffic; null: of none it is known.")
    late_percent = s.FloatField(allow_null=True, help_text="Of them: over the objective, failed or refused.")
    p95_seconds = s.FloatField(allow_null=True, help_text="Of the service that is worst against its objective.")


class SimulationTeam(Answer):
    """One team's figures (`all`: of all teams) before, after, and the difference."""

    team = s.CharField()
    before = SimulationFigures()
    after = SimulationFigures()
    difference = SimulationFigures()


class SimulationResult(Answer):
    """What came of a what-if."""

    episode = s.JSONField()
    policy = s.JSONField()
    changes = SettingChange(many=True)
    quotas_changed = s.IntegerField()
    quotas = QuotaChange(many=True, help_text="Each figure of a quota that differs.")
    nodes = s.JSONField(help_text="Nodes added, counted by pool and model, and the names of those taken away.")
    rounds = s.JSONField()
    teams = SimulationTeam(many=True)
    took_seconds = s.FloatField()
