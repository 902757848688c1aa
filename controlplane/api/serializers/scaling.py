"""Answers about how a service is scaled and changed, and about what slows a training."""

from rest_framework import serializers as s

from autoscaler.latency import MEASURES
from controlplane.api.serializers.workloads import Answer, ReclaimPrice
from gpushare.gpu import Enforcer


class LatencyPrice(Answer):
    """What keeping a latency takes at the load of the last day; null: nothing is known of the requests yet."""

    p95_seconds = s.FloatField()
    p95_of = s.ChoiceField(MEASURES, help_text="What the latency is measured on: the whole answer or its first token.")
    gpu_hours_a_day = s.FloatField(allow_null=True)
    replicas_mean = s.FloatField(allow_null=True)
    replicas_most = s.IntegerField(allow_null=True)
    short_part = s.FloatField(allow_null=True, help_text="Part of the time, 0..1, that needs more replicas than max.")


class ObjectivePrice(Answer):
    """What a service's objective costs, and what another latency would."""

    uid = s.UUIDField()
    now = LatencyPrice(allow_null=True, help_text="Null: it has no objective.")
    asked = LatencyPrice(allow_null=True, help_text="Null: no latency or standby was asked about.")
    standby = s.CharField(
        allow_blank=True,
        help_text="What the standby that is asked about costs at most, or the present one; empty: nothing.",
    )


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


class Evidence(Answer):
    """What speaks for one bottleneck."""

    bottleneck = s.CharField()
    removable = s.FloatField(help_text="Part of a step that would go with it, 0..1.")
    strength = s.FloatField(help_text="0..1; at 1 it is named, if no other one takes more of a step.")
    lately = s.ListField(
        child=s.FloatField(), help_text="The removable part in each of the newest looks, at most 30, the oldest first."
    )


class DiagnosisLevels(Answer):
    """How busy what the training uses is, 0..1; null: not known."""

    cpu = s.FloatField(allow_null=True, help_text="Of its workers' CPU.")
    throttled = s.FloatField(allow_null=True, help_text="Of the time: their CPU limit held them back.")
    disk = s.FloatField(allow_null=True)
    nic = s.FloatField(allow_null=True)
    server_cpu = s.FloatField(allow_null=True, help_text="Of the busiest parameter server's CPU.")
    gpu = s.FloatField(allow_null=True, help_text="Of its GPUs' time, on average.")


class SlowWorker(Answer):
    """The worker that the others wait for."""

    rank = s.IntegerField()
    node = s.CharField()


class RestartCost(Answer):
    """What a restart of a training is taken to cost, s: without what it waits for places in between."""

    seconds = s.FloatField()
    leave_seconds = s.FloatField(help_text="From being told to leave until its last worker is gone.")
    begin_seconds = s.FloatField(help_text="From having its places until its first step.")
    own = s.IntegerField(help_text="Of its own restarts that this was learned from.")
    lent = s.IntegerField(help_text="Of those of other trainings like it.")


class ScalingPoint(Answer):
    """How fast a training would be with so many workers, as a multiple of its speed now, by the steps seen."""

    workers = s.IntegerField()
    speed = s.FloatField()
    low = s.FloatField(help_text="Of 95 %.")
    high = s.FloatField(help_text="Of 95 %.")
    measured = s.FloatField(allow_null=True, help_text="Of the steps with so many workers; null: there were none.")
    goodput = s.FloatField(
        allow_null=True,
        help_text="Useful examples per second, likewise; null: its program reports no gradient noise, or its job file "
        "names its batch, which stays as it is.",
    )


class BatchPoint(Answer):
    """What a training would gain from a batch, as a multiple of its goodput now."""

    examples = s.IntegerField(help_text="Of all workers in a step.")
    goodput = s.FloatField(help_text="Useful examples per second.")
    low = s.FloatField(help_text="Of 95 %, without what is not known of the noise.")
    high = s.FloatField(help_text="Of 95 %, likewise.")
    speed = s.FloatField(help_text="The same of all examples per second.")
    measured = s.FloatField(allow_null=True, help_text="Of the steps seen with this batch; null: there were none.")


class TrainingBatch(Answer):
    """The batch of a training whose job file names one: examples of all workers in a step."""

    size = s.IntegerField(help_text="That its program is told now.")
    named = s.IntegerField(help_text="As its job file says.")
    min = s.IntegerField()
    max = s.IntegerField()
    gradient_noise = s.FloatField(allow_null=True, help_text="Examples; null: its program reports none.")
    curve = BatchPoint(many=True, help_text="Ascending; empty where the batch is fixed or too little is known.")


class Diagnosis(Answer):
    """What slows a training's present attempt, with the evidence, the strongest first."""

    uid = s.UUIDField()
    attempt = s.IntegerField()
    bottleneck = s.CharField(allow_null=True, help_text="gpu_compute: nothing is wrong. Null: too little is known.")
    since = s.DateTimeField(allow_null=True, help_text="Since when that is named.")
    at = s.DateTimeField(allow_null=True, help_text="The newest look.")
    windows = s.IntegerField(help_text="Looks that this goes by.")
    message = s.CharField()
    evidence = Evidence(many=True)
    levels = DiagnosisLevels(allow_null=True)
    slow_worker = SlowWorker(allow_null=True, help_text="With the bottleneck straggler.")
    restart = RestartCost()
    scaling_curve = ScalingPoint(many=True, help_text="Ascending; empty before its steps were seen for twelve looks.")
    batch = TrainingBatch(allow_null=True, help_text="Null: its job file names none.")


class TrainingAllocation(Answer):
    """What a training has. cpu: cores of a worker; gpus: on each of its nodes."""

    gpus = s.ListField(child=s.IntegerField())
    workers = s.IntegerField()
    cpu = s.FloatField()
    servers = s.IntegerField()
    batch = s.FloatField(help_text="Examples of one GPU in a step, on the mean; 1 where its job file names no batch.")


class ExperimentRow(Answer):
    """A change of a training on trial. Gains are parts of the speed, of the goodput for a batch: 0.1 is 10 % more."""

    axis = s.ChoiceField(["place", "node", "cpu", "servers", "workers", "batch"])
    status = s.ChoiceField(["on_trial", "kept", "rolled_back", "refused", "unjudged", "stayed"])
    begun_at = s.DateTimeField()
    ended_at = s.DateTimeField(allow_null=True)
    before = TrainingAllocation()
    after = TrainingAllocation()
    expected = s.FloatField(help_text="By the model of its steps.")
    expected_error = s.FloatField(help_text="Standard error of its logarithm.")
    gain = s.FloatField(allow_null=True, help_text="As measured; null: not judged.")
    gain_error = s.FloatField(allow_null=True)
    windows = s.IntegerField(help_text="That ran with the change and count.")
    message = s.CharField()
    node = s.CharField(help_text="That it left, as a worker was slow there; empty: none.")


class Experiments(Answer):
    """What would make a training faster, and what was tried, the newest first."""

    uid = s.UUIDField()
    reallocation = s.ChoiceField(["off", "recommend", "automatic"], help_text="What its team wants.")
    recommended = s.ListField(child=s.CharField(), help_text="The best first, with what is expected of it.")
    can_take_back = s.BooleanField(help_text="Whether its workers have a change of Weft's now.")
    experiments = ExperimentRow(many=True)


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
    on_host = s.IntegerField(help_text="Of these, how many have their weights in host memory, or on their way.")
    lent = s.IntegerField(help_text="GPUs of these that elastic trainings use now.")
    lent_gpu_hours = s.FloatField(help_text="All that it ever lent.")
    lent_cost = s.FloatField(help_text="What these cost at the pools' present prices: computed by others, paid by it.")
    wake_seconds = s.FloatField(help_text="Until one of them answers that has its weights on its GPU.")
    host_wake_seconds = s.FloatField(help_text="Until one answers that has them in host memory.")


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


class ScalerCondition(Answer):
    """One condition of Kubernetes' autoscaler, in its own words."""

    type = s.CharField(help_text="AbleToScale, ScalingActive or ScalingLimited; Made where Weft could not make it.")
    status = s.CharField()
    reason = s.CharField(allow_blank=True)
    message = s.CharField(allow_blank=True)


class Native(Answer):
    """How Kubernetes' own autoscaler of a service stands (scaling: native)."""

    requests_in_flight = s.FloatField(allow_null=True, help_text="Of all replicas. Null: not known.")
    target_per_replica = s.FloatField(allow_null=True, help_text="That each is to have. Null: not known yet.")
    current_replicas = s.IntegerField(allow_null=True, help_text="That it has seen.")
    desired_replicas = s.IntegerField(allow_null=True, help_text="That it wants.")
    conditions = ScalerCondition(many=True)
    other_owner = s.CharField(allow_blank=True, help_text="What else writes the number of replicas; empty: nothing.")
    seen_at = s.DateTimeField(allow_null=True, help_text="Cluster clock of the newest look at it.")


class RaisedLimit(Answer):
    """What replicas on shares may use of their GPUs while others leave it idle, as the autoscaler raises it."""

    now_milli = s.IntegerField(help_text="Milli-GPU that each replica may use now.")
    least_milli = s.IntegerField(help_text="The job file's limit.")
    most_milli = s.IntegerField(help_text="The job file's max_limit.")
    cap_milli = s.IntegerField(help_text="The most that it may be now: what the replicas' GPUs have beside others.")
    enforced_by = s.ChoiceField(
        [one.value for one in Enforcer],
        help_text="Advisory: nothing holds a replica to its limit, so it is not raised.",
    )
    sentence = s.CharField(help_text="The same in words.")


class GaveGpus(Answer):
    """A workload that gave GPUs to a service."""

    at = s.DateTimeField()
    kind = s.CharField()
    reason = s.CharField(allow_blank=True)
    workload = s.UUIDField(allow_null=True, help_text="Null where you may not see it.")
    team = s.CharField()
    name = s.CharField(allow_blank=True)
    cycle = s.IntegerField(allow_null=True)
    reclaim_price = ReclaimPrice(allow_null=True)


class Autoscaling(Answer):
    """How many replicas a service may have, should have and has; the newest changes first."""

    min = s.IntegerField()
    max = s.IntegerField()
    wanted = s.IntegerField()
    running = s.IntegerField()
    on_gpus = s.IntegerField(help_text="The GPUs that those which run lie on: fewer than these, where some share one.")
    on_nodes = s.IntegerField(help_text="The nodes that they are on.")
    sleep = Sleep(allow_null=True, help_text="Null for a service that always has a replica.")
    native = Native(allow_null=True, help_text="Null for a service that Weft scales.")
    standby = Standby(allow_null=True, help_text="Null for a service without.")
    raised_limit = RaisedLimit(allow_null=True, help_text="Null for a service whose limit is not raised.")
    changes = Scaled(many=True)
    taken = GaveGpus(many=True, help_text="Workloads that gave GPUs to it, the newest first.")
