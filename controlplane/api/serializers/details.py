"""Answers about one workload closely, and about devices; queries.details and queries.platform build them."""

from rest_framework import serializers as s

from autoscaler.sla import Standing
from controlplane.api.renamed import renamed
from controlplane.api.serializers.platform import Gpu
from controlplane.api.serializers.workloads import PHASES, Answer, Event, ExpectedStart, Page


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


class GpuUse(Answer):
    """What one GPU of a workload does: duty is the part of the time that it computes, 0..1; null is not known."""

    rank = s.IntegerField()
    node = s.CharField()
    index = s.IntegerField()
    duty = s.FloatField(allow_null=True)
    memory_used_mib = s.IntegerField(allow_null=True)


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
    p95_seconds = s.FloatField(allow_null=True)
    requests_per_second = s.FloatField(allow_null=True)


class LatencyPrice(Answer):
    """What keeping a latency takes at the load of the last day; null: nothing is known of the requests yet."""

    p95_seconds = s.FloatField()
    gpu_hours_a_day = s.FloatField(allow_null=True)
    replicas_mean = s.FloatField(allow_null=True)
    replicas_most = s.IntegerField(allow_null=True)
    short_part = s.FloatField(allow_null=True, help_text="Part of the time, 0..1, that needs more replicas than max.")


class ObjectivePrice(Answer):
    """What a service's objective costs, and what another latency would."""

    uid = s.UUIDField()
    now = LatencyPrice(allow_null=True, help_text="Null: it has no objective.")
    asked = LatencyPrice(allow_null=True, help_text="Null: no p95_latency was asked about.")


class RevisionRow(Answer):
    """An image and environment that a service has, had or was to have."""

    number = s.IntegerField()
    image = s.CharField()
    env = s.DictField(child=s.CharField())
    weight = s.IntegerField(help_text="Percent of the requests that it is to get.")
    made_by = s.CharField(allow_blank=True)
    made_at = s.DateTimeField()
    in_force_at = s.DateTimeField(help_text="When it was last asked for.")
    is_wanted = s.BooleanField()
    placed = s.IntegerField(help_text="Replicas of it that have a place and keep it.")
    ready = s.IntegerField(help_text="Of them, those that answer.")
    failed = s.CharField(allow_blank=True, help_text="Why it was taken back; empty: it was not.")


class Rollout(Answer):
    """How far the wanted revision has replaced the one before."""

    to = s.IntegerField()
    before = s.IntegerField()
    ready = s.IntegerField(help_text="Replicas of the wanted revision that answer.")
    of = s.IntegerField(help_text="Replicas that it is to have for now.")
    is_canary = s.BooleanField(help_text="Whether it gets a part of the requests only, until it is promoted.")
    weight = s.IntegerField(help_text="Percent of the requests that it is to get.")
    percent = s.IntegerField(allow_null=True, help_text="Percent that it gets now; null: they are not split.")
    steps = s.ListField(child=s.IntegerField(), help_text="Percents that it gets by itself, one after the other.")
    next_weight = s.IntegerField(allow_null=True, help_text="Percent of the next step; null: none, a person decides.")
    next_at = s.DateTimeField(allow_null=True, help_text="When the next step comes at the soonest; null: not known.")
    held = s.CharField(allow_blank=True, help_text="What the next step waited for when it was last looked at.")
    judged_by = s.ChoiceField(
        ["requests", "service", "nothing"],
        help_text="Its own requests, or how the whole service stands; nothing: neither is known.",
    )
    own_requests = s.IntegerField(allow_null=True, help_text="Requests that it has answered since they are split.")
    own_over = s.IntegerField(allow_null=True, help_text="Of them, late or failed.")
    before_requests = s.IntegerField(allow_null=True, help_text="The same of the revision before.")
    before_over = s.IntegerField(allow_null=True)
    is_back = s.BooleanField(help_text="Whether it goes back, as the other revision did not work.")
    has_no_room = s.BooleanField(help_text="Without room for one replica more, one leaves before another comes.")
    since = s.DateTimeField()
    reason = s.CharField(allow_blank=True)
    message = s.CharField(allow_blank=True)


class Revisions(Answer):
    """The revisions of a service, the newest first, and how the wanted one is being brought in."""

    uid = s.UUIDField()
    revision = s.IntegerField(help_text="The number of the wanted one.")
    rollout = Rollout(allow_null=True, help_text="Null when nothing is being replaced.")
    revisions = RevisionRow(many=True)


class Scaled(Answer):
    """One change of the number of replicas."""

    at = s.DateTimeField()
    before = s.IntegerField(allow_null=True)
    after = s.IntegerField(allow_null=True)
    message = s.CharField(allow_blank=True)


class Standby(Answer):
    """What a service keeps loaded beyond the replicas that are to serve, and lends of it."""

    serving = s.IntegerField(help_text="Replicas that are to serve.")
    asleep = s.IntegerField(help_text="Replicas on standby now.")
    lent = s.IntegerField(help_text="GPUs of these that elastic trainings use now.")
    lent_gpu_hours = s.FloatField(help_text="All that it ever lent.")


class Sleep(Answer):
    """Whether a service that may have no replica has none, and what a request then waits."""

    is_asleep = s.BooleanField(help_text="Whether it has no replica now, as no request comes.")
    after_seconds = s.FloatField(help_text="Without a request until it has none (replicas.scale_to_zero_after).")
    cold_start_seconds = s.FloatField(
        allow_null=True,
        help_text="From the first request that waits until a replica serves: the median of the last times that it "
        "woke, before that as its first replica took. Null: not known yet.",
    )
    times_woken = s.IntegerField(help_text="Times that it woke which the median is of, at most 5.")


class Autoscaling(Answer):
    """How many replicas a service may have, should have and has; the newest changes first."""

    min = s.IntegerField()
    max = s.IntegerField()
    wanted = s.IntegerField()
    running = s.IntegerField()
    sleep = Sleep(allow_null=True, help_text="Null for a service that always has a replica.")
    standby = Standby(allow_null=True, help_text="Null for a service without.")
    changes = Scaled(many=True)


class Connection(Answer):
    """Where a notebook is reached inside the cluster; null when it has ended."""

    address = s.CharField(allow_null=True)
    is_ready = s.BooleanField(help_text="Whether it runs now.")


class Activity(Answer):
    """Since when a notebook is measured idle, and when it is parked if it stays so."""

    idle_since = s.DateTimeField(allow_null=True)
    park_after_seconds = s.FloatField(allow_null=True)
    parks_at = s.DateTimeField(allow_null=True)


class Device(Gpu):
    """One GPU and its machine."""

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
