"""Answers about teams, machines and usage, for the OpenAPI document; queries.platform builds them."""

from typing import Any

from rest_framework import serializers as s

from controlplane.api.renamed import renamed
from controlplane.api.serializers.accounts import Member
from controlplane.api.serializers.workloads import Answer, Page
from controlplane.domain.periods import Period
from controlplane.lifecycle.draining import Fate
from controlplane.queries.tenancy.teams import Takes
from gpushare.backends.catalogue import CHOSEN, DEMANDS, Guarantee
from gpushare.gpu import Enforcer


class QuotaPart(Answer):
    """What one cell has of a quota, milli-GPU; null = no limit."""

    cell = s.CharField()
    nominal_milli = s.IntegerField()
    borrowing_limit_milli = s.IntegerField(allow_null=True)
    lending_limit_milli = s.IntegerField(allow_null=True)


class Quota(Answer):
    """A team's quota in a pool, milli-GPU; null = no limit."""

    team = s.CharField()
    pool = s.CharField()
    nominal_milli = s.IntegerField()
    borrowing_limit_milli = s.IntegerField(allow_null=True)
    lending_limit_milli = s.IntegerField(allow_null=True)
    weight = s.IntegerField()
    version = s.IntegerField()
    parts = QuotaPart(many=True, required=False, help_text="What each cell has of it, where there are cells.")


class SavedQuota(Quota):
    """A saved quota, and what is odd about it."""

    warnings = s.ListField(child=s.CharField())


class QuotaList(Page):
    """Quotas."""

    results = Quota(many=True)


@renamed(held_milli="allocated_milli", decayed_milli="recent_usage_milli")
class TeamShare(Answer):
    """How one team stands in one pool now, milli-GPU: nominal quota, entitlement, allocation, and recent usage."""

    team = s.CharField()
    pool = s.CharField()
    nominal_milli = s.IntegerField()
    entitled_milli = s.IntegerField()
    allocated_milli = s.IntegerField()
    recent_usage_milli = s.IntegerField()


class ShareList(Page):
    """How teams share."""

    results = TeamShare(many=True)


ENFORCED_BY = (
    "What holds a share to its part of a GPU (advisory: nothing; back-end: software on the node that says so, without "
    "a name); of a pool whose nodes differ, what guarantees least. Null where no share may go."
)


class Budget(Answer):
    """How many GPU hours a team may use in each period, and how many it has used in this one."""

    team = s.CharField()
    period = s.ChoiceField([one.value for one in Period])
    gpu_hours = s.IntegerField()
    is_hard = s.BooleanField()
    used_hours = s.FloatField()
    is_used_up = s.BooleanField()
    since = s.DateTimeField()
    until = s.DateTimeField()
    version = s.IntegerField()


class BudgetList(Page):
    """Budgets."""

    results = Budget(many=True)


@renamed(held_milli="allocated_milli")
class TeamRow(Answer):
    """A team now, milli-GPU over all pools; computing is null before it was measured."""

    name = s.CharField()
    parent = s.CharField(allow_null=True)  # type: ignore[assignment]
    colour = s.IntegerField()
    role = s.ChoiceField(["viewer", "member", "admin"])
    nominal_milli = s.IntegerField()
    allocated_milli = s.IntegerField()
    borrowed_milli = s.IntegerField()
    computing_milli = s.IntegerField(allow_null=True)
    waiting = s.IntegerField()
    running = s.IntegerField()
    shares_with_others = s.BooleanField(
        help_text="Its shares may lie on one GPU with shares of other teams that allow it too."
    )
    reallocation = s.ChoiceField(
        ["off", "recommend", "automatic"], help_text="What is done where it is known what makes its trainings faster."
    )
    notebook_park_minutes = s.IntegerField(
        help_text="Its notebooks are parked after so long without use at the latest; 0: as their job files say."
    )
    notebook_max_milli = s.IntegerField(help_text="What a notebook of it may be guaranteed; 0: what quota allows.")
    notebook_extend = s.BooleanField(help_text="Whether its members may restart the idle time of a notebook.")
    share_demands = s.ListField(
        child=s.ChoiceField(DEMANDS), help_text="What must be held of its shares, and by which back-end."
    )


class TeamList(Page):
    """The teams that the asker may see."""

    results = TeamRow(many=True)


class OtherPods(Answer):
    """Pods in a team's namespace that are no workloads: they are counted as used, and never touched."""

    pods = s.IntegerField()
    gpus = s.IntegerField(help_text="Whole GPUs that they have.")


class Team(TeamRow):
    """A team with its quotas and members."""

    other_pods = OtherPods()
    managed_by = s.CharField(help_text="weft, or the Kubernetes resource whose object alone changes it.")
    quotas = Quota(many=True)
    members = Member(many=True)


class PriorityClass(Answer):
    """A priority class."""

    name = s.CharField()
    value = s.IntegerField()
    preemptible = s.BooleanField()
    is_default = s.BooleanField()


class PriorityClassList(Page):
    """All classes, the highest first."""

    results = PriorityClass(many=True)


class Enforced(Answer):
    """What holds a share to its part there."""

    enforced_by = s.ChoiceField([one.value for one in Enforcer], allow_null=True, help_text=ENFORCED_BY)
    guarantees = s.ListField(
        child=s.ChoiceField([one.value for one in Guarantee]),
        help_text="What it holds of a share. faults: an error of one share ends no other.",
    )
    follows_limit = s.BooleanField(help_text="Whether a limit that changes is in force while a share runs.")
    verified = s.BooleanField(help_text="Whether Weft's own tests saw these guarantees on a GPU.")
    enforcement = s.CharField(allow_blank=True, help_text="The same in words; empty where no share may go.")


@renamed(held_milli="allocated_milli")
class NodePool(Enforced):
    """A node pool: what it has, what is promised of it and what is held, milli-GPU."""

    name = s.CharField()
    gpu_model = s.CharField(allow_blank=True)
    gpus = s.IntegerField()
    price_per_gpu_hour = s.FloatField(allow_null=True, help_text="Null without a role in a team.")
    nodes = s.IntegerField()
    capacity_milli = s.IntegerField()
    nominal_milli = s.IntegerField()
    allocated_milli = s.IntegerField()
    takes = s.ChoiceField(Takes.values, help_text="For what new work may take its GPUs.")
    share_nodes = s.IntegerField(help_text="Nodes that take shares: labelled for them, in a pool that takes them.")
    enforcer = s.ChoiceField(
        [one.value for one in CHOSEN], allow_blank=True, help_text="Chosen for the pool; empty: what its nodes say."
    )


class NodePoolList(Page):
    """All node pools."""

    results = NodePool(many=True)


class Tenant(Answer):
    """One worker's hold on a GPU; nameless if of a team that the asker cannot see."""

    team = s.CharField()
    workload = s.UUIDField(allow_null=True)
    name = s.CharField(allow_null=True)
    milli = s.IntegerField()


@renamed(held_milli="allocated_milli")
class Gpu(Answer):
    """One device: which workloads have it, and its last measured use (null = not known)."""

    index = s.IntegerField()
    healthy = s.BooleanField()
    duty = s.FloatField(allow_null=True)
    memory_used_mib = s.IntegerField(allow_null=True)
    allocated_milli = s.IntegerField()
    tenants = Tenant(many=True)


@renamed(held_milli="allocated_milli")
class Node(Enforced):
    """A machine with its GPUs."""

    name = s.CharField()
    pool = s.CharField()
    gpu_model = s.CharField(allow_blank=True)
    gpu_count = s.IntegerField()
    gpu_memory_mib = s.IntegerField()
    cpu_milli = s.IntegerField()
    memory_mib = s.IntegerField()
    zone = s.CharField(allow_blank=True)
    rack = s.CharField(allow_blank=True)
    nvlink = s.IntegerField()
    ready = s.BooleanField()
    schedulable = s.BooleanField(help_text="Not cordoned.")
    allocated_milli = s.IntegerField()
    takes = s.ListField(child=s.ChoiceField(["whole", "shares"]), help_text="For what new work may take its GPUs.")
    gpus = Gpu(many=True)
    cell = s.CharField(required=False, help_text="Whose decider it is for, where there are cells.")


class SlowTraining(Answer):
    """A training that a worker on the machine slowed."""

    uid = s.UUIDField(allow_null=True, help_text="null: you may not see it.")
    team = s.CharField()
    name = s.CharField(allow_blank=True)
    attempt = s.IntegerField()
    rank = s.IntegerField(help_text="Of the slow worker.")
    named_at = s.DateTimeField(help_text="Cluster clock.")
    part = s.FloatField(help_text="Of a step that would go without it, 0 to 1.")


class SlowNode(Answer):
    """In which trainings a worker on a machine was named as slow, the newest first."""

    node = s.CharField()
    trainings = SlowTraining(many=True)


class Drained(Answer):
    """What a drain did to a workload that had workers on the machine."""

    workload = s.UUIDField()
    team = s.CharField()
    name = s.CharField()
    fate = s.ChoiceField([one.value for one in Fate])


class DrainedNode(Node):
    """A drained machine, and what became of the workloads there."""

    workloads = Drained(many=True)


class NodeList(Page):
    """Machines."""

    results = Node(many=True)


@renamed(held_milli_seconds="allocated_milli_seconds", held_gpu_hours="allocated_gpu_hours")
class UsageRow(Answer):
    """GPU time of one step and one combination of what it is grouped by."""

    start = s.DateTimeField()
    team = s.CharField(required=False)
    user = s.CharField(required=False, allow_blank=True)
    pool = s.CharField(required=False)
    workload = s.UUIDField(required=False)
    name = s.CharField(required=False)
    allocated_milli_seconds = s.IntegerField()
    computed_milli_seconds = s.IntegerField()
    allocated_gpu_hours = s.FloatField()
    computed_gpu_hours = s.FloatField()


class Usage(Answer):
    """A usage report; from and to are the cluster's clock."""

    granularity = s.ChoiceField(["hour", "day", "all"])
    rows = UsageRow(many=True)

    def get_fields(self) -> dict[str, Any]:
        """Add the two fields that are named like keywords of Python."""
        return {**super().get_fields(), "from": s.DateTimeField(), "to": s.DateTimeField()}


class Cluster(Answer):
    """The cluster's clock and what drives it."""

    now = s.DateTimeField()
    seconds = s.FloatField()
    is_simulated = s.BooleanField()
    preset = s.CharField(allow_blank=True)
    speed = s.FloatField(allow_null=True)
    paused = s.BooleanField()
    observed_at = s.DateTimeField(allow_null=True)


class Health(Answer):
    """Whether it works; checks name what does not."""

    status = s.ChoiceField(["ok", "unready"])
    checks = s.DictField(required=False)
