"""Answers about one workload closely, and about devices; queries.details and queries.platform build them."""

from rest_framework import serializers as s

from autoscaler.latency import MEASURES
from autoscaler.sla import Standing
from controlplane.api.renamed import renamed
from controlplane.api.serializers.platform import ENFORCED_BY, Gpu, Tenant
from controlplane.api.serializers.workloads import (
    AS_OF,
    NO_SUGGESTIONS,
    PHASES,
    PLACE,
    Answer,
    Check,
    Event,
    Evicted,
    ExpectedStart,
    Page,
    Suggestion,
)
from controlplane.domain.holds import Hold
from gpushare.gpu import Enforcer


class ChangedByWeft(Answer):
    """What Weft changed of a training and still holds, or is about to change."""

    axis = s.CharField(help_text="What is changed: place, node, cpu, servers or workers.")
    status = s.CharField(
        help_text="As in GET /trainings/{uid}/experiments; planned: its workers by the plan of its team's trainings."
    )
    since = s.DateTimeField(allow_null=True)
    message = s.CharField(help_text="What holds, and why.")
    undo = s.CharField(help_text="How to undo it.")


@renamed(remedies="suggestions", no_remedies="no_suggestions")
class Explanation(Answer):
    """Why a workload is where it is; for one that waits, what the next round would tell it."""

    uid = s.UUIDField()
    phase = s.ChoiceField(PHASES)
    reason = s.CharField(allow_blank=True)
    message = s.CharField(allow_blank=True)
    numbers = s.DictField()
    since = s.DateTimeField(allow_null=True)
    position = s.IntegerField(allow_null=True, help_text=PLACE)
    in_queue = s.IntegerField(allow_null=True, help_text="How many places the queue has, all teams counted.")
    checks = Check(many=True)
    will_start = s.BooleanField(allow_null=True)
    evicts = Evicted(many=True)
    expected_start = ExpectedStart(allow_null=True)
    suggestions = Suggestion(many=True)
    no_suggestions = s.CharField(allow_blank=True, help_text=NO_SUGGESTIONS)
    changed_by_weft = ChangedByWeft(many=True)
    as_of = s.DateTimeField(allow_null=True, help_text=AS_OF)


class Round(Answer):
    """The round that made a decision; `manage.py replay NUMBER` decides it again while its input is kept."""

    number = s.IntegerField()
    loop = s.CharField()
    policy = s.IntegerField(allow_null=True, help_text="The policy's version it went by; null is the defaults.")
    digest = s.CharField(help_text="Of what the round saw.")
    took_ms = s.FloatField()
    is_replayable = s.BooleanField()


class Decision(Event):
    """What a round decided about a workload."""

    round = Round(allow_null=True, help_text="Null once the round is not kept any more.")


class DecisionPage(Page):
    """A page of decisions."""

    results = Decision(many=True)


class Eta(Answer):
    """When a workload is expected to start and to end; null where it cannot be predicted."""

    uid = s.UUIDField()
    phase = s.ChoiceField(PHASES)
    expected_start = ExpectedStart(allow_null=True)
    expected_end = ExpectedStart(allow_null=True)
    basis = s.ChoiceField(
        ["expected_duration", "history", "default", "none"], help_text="Where the running time is taken from."
    )
    as_of = s.DateTimeField(allow_null=True, help_text="Cluster clock: when this was worked out; null: it is not yet.")


class GpuUse(Answer):
    """What one GPU of a workload does: duty is the part of the time that it computes, 0..1; null is not known."""

    rank = s.IntegerField()
    node = s.CharField()
    index = s.IntegerField()
    duty = s.FloatField(allow_null=True)
    memory_used_mib = s.IntegerField(allow_null=True)


class LentTo(Answer):
    """GPUs that trainings of a team have of a service's sleeping replicas."""

    team = s.CharField(allow_null=True, help_text="Null: all teams that you may not see.")
    gpus = s.IntegerField()


class ServiceMinute(Answer):
    """One minute of a service."""

    at = s.DateTimeField()
    requests = s.IntegerField(allow_null=True)
    over = s.IntegerField(allow_null=True, help_text="Requests that missed the objective.")
    p95_seconds = s.FloatField(allow_null=True)
    requests_per_second = s.FloatField(allow_null=True)
    replicas = s.IntegerField()
    wanted = s.IntegerField()
    asleep = s.IntegerField(allow_null=True, help_text="Replicas on standby; null for a service without.")
    lent = s.IntegerField(allow_null=True, help_text="GPUs of these that trainings use; null for a service without.")
    lent_to = LentTo(many=True, allow_null=True, help_text="The same by team; null where it was not kept.")


class Metrics(Answer):
    """What is measured of a workload."""

    at = s.DateTimeField()
    gpus = GpuUse(many=True)
    windows = ServiceMinute(many=True)


class Pod(Answer):
    """One pod of the present attempt."""

    name = s.CharField()
    namespace = s.CharField()
    rank = s.IntegerField()
    role = s.CharField()
    index = s.IntegerField()
    node = s.CharField()
    state = s.CharField()
    phase = s.CharField(allow_blank=True, help_text="As last observed; empty before it was seen.")


class PodPage(Page):
    """A page of pods."""

    results = Pod(many=True)


class Allocation(Answer):
    """What one member held, and for how long."""

    attempt = s.IntegerField()
    rank = s.IntegerField()
    role = s.CharField()
    index = s.IntegerField()
    node = s.CharField()
    pool = s.CharField()
    gpus = s.ListField(child=s.IntegerField())
    milli = s.IntegerField()
    state = s.CharField()
    bound_at = s.DateTimeField(allow_null=True)
    released_at = s.DateTimeField(allow_null=True)
    milli_seconds = s.IntegerField(help_text="milli-GPU seconds held so far.")


class AllocationPage(Page):
    """A page of allocations, oldest first."""

    results = Allocation(many=True)


@renamed(held_gpu_hours="allocated_gpu_hours")
class PoolCost(Answer):
    """The part of a cost that one node pool has."""

    pool = s.CharField()
    price_per_gpu_hour = s.FloatField()
    allocated_gpu_hours = s.FloatField()
    computed_gpu_hours = s.FloatField()
    cost = s.FloatField()


@renamed(held_gpu_hours="allocated_gpu_hours")
class Cost(Answer):
    """What a workload held and what that costs at the pools' present prices."""

    uid = s.UUIDField()
    accounted_until = s.DateTimeField(allow_null=True)
    allocated_gpu_hours = s.FloatField()
    computed_gpu_hours = s.FloatField()
    idle_gpu_hours = s.FloatField()
    cost = s.FloatField()
    pools = PoolCost(many=True)


class BurnRates(Answer):
    """Burn rates over four spans; null where no request was measured."""

    five_minutes = s.FloatField(allow_null=True)
    half_hour = s.FloatField(allow_null=True)
    hour = s.FloatField(allow_null=True)
    six_hours = s.FloatField(allow_null=True)


class Objective(Answer):
    """How a service stands against its objective; parts of 1, seconds; null is not known."""

    uid = s.UUIDField()
    p95_target_seconds = s.FloatField()
    p95_of = s.ChoiceField(MEASURES, help_text="What the p95 is measured on: the whole answer or its first token.")
    availability_target = s.FloatField()
    window_seconds = s.FloatField()
    requests = s.IntegerField()
    over = s.IntegerField(help_text="Requests in the window that missed the objective.")
    attainment = s.FloatField(allow_null=True)
    budget_left = s.FloatField(allow_null=True, help_text="Part of the error budget that is left; below 0: violated.")
    burn_rate = s.FloatField(
        allow_null=True, help_text="Burn rate of the last hour; 1 = on target: the budget lasts to the window's end."
    )
    burn_rates = BurnRates()
    standing = s.ChoiceField(
        [one.value for one in Standing], help_text="The first that applies: violated, at risk, not known, met."
    )
    unknown_why = s.CharField(allow_blank=True, help_text="Why it is not known, where there is more to say of it.")
    p95_seconds = s.FloatField(allow_null=True)
    requests_per_second = s.FloatField(allow_null=True)


class Connection(Answer):
    """Where a notebook is reached inside the cluster; null when it has ended."""

    address = s.CharField(allow_null=True)
    is_ready = s.BooleanField(help_text="Whether it runs now.")
    browser_url = s.CharField(allow_null=True, help_text="A page that opens it, by the proxy; null: there is none.")


ON_GPU = "Of a notebook on demand: the GPU of its node that its memory is on; null: on none, or not known."


class Activity(Answer):
    """Since when a notebook is measured idle, when it is parked if it stays so, and on demand which GPU it has now."""

    idle_since = s.DateTimeField(allow_null=True)
    park_after_seconds = s.FloatField(allow_null=True)
    parks_at = s.DateTimeField(allow_null=True)
    on_demand = s.BooleanField(help_text="Whether it has a GPU only while a cell runs.")
    on_gpu = s.IntegerField(allow_null=True, help_text=ON_GPU)
    in_host_memory = s.BooleanField(help_text="Of one on demand: whether its memory is on no GPU now.")


class DeviceTenant(Tenant):
    """One worker's hold on a GPU, as the ledger has it; milli is what it is guaranteed."""

    hold = s.ChoiceField(
        [one.value for one in Hold],
        help_text="By what it is there: all of the GPU, a share, a replica on standby, a worker on the GPU that such a "
        "replica lends, one in the time that shares leave, or a notebook on demand.",
    )
    may_use_milli = s.IntegerField(help_text="Its limit: the most that it may use while others leave it idle.")
    may_use_memory_mib = s.IntegerField(allow_null=True, help_text="The memory that it may take; null: not said.")
    measured_duty = s.FloatField(
        allow_null=True, help_text="0..1, of it alone; null: not known, as is what several use together."
    )
    measured_memory_mib = s.IntegerField(allow_null=True)
    is_leaving = s.BooleanField()
    on_gpu = s.IntegerField(allow_null=True, help_text=ON_GPU)
    in_host_memory = s.BooleanField(help_text="Of a notebook on demand: whether its memory is on no GPU now.")


class Device(Gpu):
    """One GPU and its machine."""

    tenants = DeviceTenant(many=True)
    neighbours = s.IntegerField(help_text="How many others each worker on it has beside it.")
    enforced_by = s.ChoiceField([one.value for one in Enforcer], allow_null=True, help_text=ENFORCED_BY)

    node = s.CharField()
    pool = s.CharField()
    gpu_model = s.CharField(allow_blank=True)
    gpu_memory_mib = s.IntegerField()
    zone = s.CharField(allow_blank=True)
    rack = s.CharField(allow_blank=True)
    ready = s.BooleanField()
    schedulable = s.BooleanField()


class DeviceList(Page):
    """GPUs by machine and index."""

    results = Device(many=True)


class GpuProfile(Answer):
    """One kind of GPU."""

    name = s.CharField()
    gpu_model = s.CharField(allow_blank=True)
    memory_mib = s.IntegerField()
    nodes = s.IntegerField()
    gpus = s.IntegerField()
    node_pools = s.ListField(child=s.CharField())


class GpuProfileList(Page):
    """The kinds of GPUs."""

    results = GpuProfile(many=True)


class RackNode(Answer):
    """One machine of a rack; nvlink is the number of GPUs in one NVLink domain, 0 without."""

    name = s.CharField()
    gpus = s.IntegerField()
    nvlink = s.IntegerField()


class Rack(Answer):
    """One rack."""

    zone = s.CharField(allow_blank=True)
    rack = s.CharField(allow_blank=True)
    nodes = RackNode(many=True)
    gpus = s.IntegerField()
    whole_free_gpus = s.IntegerField()


class TopologyPage(Page):
    """The racks: `zone`, `rack` and `node` are what `topology` of a job file may name."""

    results = Rack(many=True)


class LogLine(Answer):
    """One printed line."""

    at = s.DateTimeField()
    seconds = s.FloatField()
    rank = s.IntegerField()
    text = s.CharField(allow_blank=True)


class Logs(Answer):
    """The last lines; `since=next_since` goes on from there."""

    attempt = s.IntegerField()
    next_since = s.FloatField(allow_null=True)
    lines = LogLine(many=True)
