"""Answers about workloads, for the OpenAPI document; queries.workloads builds them."""

from rest_framework import serializers as s

from autoscaler.sla import Standing
from controlplane.api.renamed import renamed
from scheduler.explain.change import ChangeKind
from scheduler.model.decision import Whose
from scheduler.model.dependency import When
from scheduler.model.workload import Kind, Phase

PHASES = [phase.value for phase in Phase]
KINDS = [kind.value for kind in Kind]


class Answer(s.Serializer[object]):
    """Base of what is only ever sent."""


class Page(Answer):
    """A part of a list: where the next one is, and what it holds as `results`."""

    next = s.URLField(allow_null=True)


class Workers(Answer):
    """How many workers: wanted, least, most, with a place, and running."""

    count = s.IntegerField()
    min = s.IntegerField()
    max = s.IntegerField()
    placed = s.IntegerField()
    running = s.IntegerField()


class Share(Answer):
    """A share of one GPU."""

    guarantee_milli = s.IntegerField()
    limit_milli = s.IntegerField()
    memory_mib = s.IntegerField()


class Resources(Answer):
    """What one worker asks; milli_gpu is of all wanted members together."""

    gpus = s.IntegerField()
    gpu_models = s.ListField(child=s.CharField())
    share = Share(allow_null=True)
    gpu_memory_mib = s.IntegerField()
    cpu_milli = s.IntegerField()
    memory_mib = s.IntegerField()
    milli_gpu = s.IntegerField()


class Resize(Answer):
    """CPU and memory of each worker while they are changed in place; `resources` has the larger of before and after."""

    cpu_milli = s.IntegerField(help_text="That each worker is to have.")
    memory_mib = s.IntegerField()
    is_put_back = s.BooleanField(help_text="Whether a node refused, so that it gets back what it had.")
    since = s.DateTimeField()
    message = s.CharField(allow_blank=True, help_text="Why a node has not done it yet, in its own words.")


class Role(Answer):
    """One role of a gang, a pod set beside its workers: how many members, how they stand, and milli_gpu of them all."""

    name = s.CharField()
    count = s.IntegerField()
    placed = s.IntegerField()
    running = s.IntegerField()
    resources = Resources()


class ClusterSeconds(Answer):
    """The times as seconds of the cluster's clock."""

    submitted_at = s.FloatField()
    queued_at = s.FloatField()
    started_at = s.FloatField(allow_null=True)
    first_started_at = s.FloatField(allow_null=True)
    ended_at = s.FloatField(allow_null=True)


class Moments(Answer):
    """An expected start in seconds of the cluster's clock."""

    low = s.FloatField()
    median = s.FloatField()
    high = s.FloatField()


class ExpectedStart(Answer):
    """When a waiting workload is expected to start: 80 % of starts are from low to high. By the cluster's clock."""

    low = s.DateTimeField()
    median = s.DateTimeField()
    high = s.DateTimeField()
    cluster_seconds = Moments()


class StartsAfter(Answer):
    """A workload of the team that this one starts after."""

    name = s.CharField()
    when = s.ChoiceField(
        [when.value for when in When], allow_blank=True, help_text="Empty: what its type means by being met."
    )
    met = s.BooleanField(help_text="Whether that is so.")


class WorkloadRow(Answer):
    """A workload and how it stands. Times are the cluster's clock."""

    uid = s.UUIDField()
    seq = s.IntegerField()
    name = s.CharField()
    team = s.CharField()
    type = s.ChoiceField(KINDS)
    phase = s.ChoiceField(PHASES)
    standing = s.ChoiceField(
        [one.value for one in Standing],
        allow_null=True,
        help_text="How a service stands against its objective; null: it has none, has ended, or is no service.",
    )
    reason = s.CharField(allow_blank=True)
    message = s.CharField(allow_blank=True)
    reason_since = s.DateTimeField(allow_null=True)
    priority_class = s.CharField()
    priority = s.IntegerField()
    preemptible = s.BooleanField()
    created_by = s.CharField(allow_blank=True)
    managed_by = s.CharField(help_text="weft, or the Kubernetes resource whose object alone changes it.")
    workers = Workers()
    roles = Role(many=True)
    resources = Resources()
    resize = Resize(allow_null=True, help_text="Null when nothing is being changed in place.")
    after = s.ListField(child=s.CharField())
    starts_after = StartsAfter(many=True)
    unmet = s.ListField(child=s.CharField())
    attempt = s.IntegerField()
    failures = s.IntegerField()
    retries = s.IntegerField()
    exit_code = s.IntegerField(allow_null=True)
    progress = s.FloatField(allow_null=True)
    address = s.CharField(allow_null=True, help_text="Of a notebook or a service, inside the cluster.")
    idle_since = s.DateTimeField(allow_null=True, help_text="Of a notebook: measured idle since then.")
    version = s.IntegerField()
    submitted_at = s.DateTimeField()
    queued_at = s.DateTimeField()
    started_at = s.DateTimeField(allow_null=True)
    first_started_at = s.DateTimeField(allow_null=True)
    ended_at = s.DateTimeField(allow_null=True)
    cluster_seconds = ClusterSeconds()


class Workload(WorkloadRow):
    """A workload in full: with its job file, and the same in one unit each."""

    spec = s.DictField()
    normalised = s.DictField()
    expected_start = ExpectedStart(allow_null=True, help_text="Of one in the queue, as worked out seconds ago.")
    cell = s.CharField(required=False, help_text="Whose decider decides for it, where it is in a cell with a name.")


class WorkloadPage(Page):
    """A page of workloads."""

    results = WorkloadRow(many=True)


class WorkloadBatch(Answer):
    """The workloads of a batch, in its order."""

    results = Workload(many=True)


class Refusal(Answer):
    """Why an action was refused: what the action on this workload alone would answer as a problem."""

    status = s.IntegerField()
    code = s.CharField()
    field = s.CharField(allow_blank=True)
    message = s.CharField()


class Acted(Answer):
    """What came of an action on one of several workloads."""

    uid = s.UUIDField()
    is_done = s.BooleanField()
    refusal = Refusal(allow_null=True, help_text="Null where it is done.")
    workload = WorkloadRow(allow_null=True, help_text="As it stands now; null for one that there is not for you.")


class ActedList(Answer):
    """What came of each, in the order asked."""

    results = Acted(many=True)


class Applied(Answer):
    """What came of a job file that was applied."""

    outcome = s.ChoiceField(["created", "configured", "unchanged"])
    changed = s.ListField(child=s.CharField(), help_text="The fields that were changed.")
    workload = Workload()


class Difference(Answer):
    """One field in which a workload differs from a job file."""

    field = s.CharField()
    before = s.JSONField(allow_null=True, help_text="As the live workload has it.")
    after = s.JSONField(allow_null=True, help_text="As the job file has it.")
    can_change = s.BooleanField(help_text="Else a new workload has to be submitted.")


class Diff(Answer):
    """What applying a job file would change."""

    uid = s.UUIDField(allow_null=True, help_text="The live workload of the name; null: it would be created.")
    differences = Difference(many=True)


PLACE = "Its place in the queue, all teams counted, from 1; null: no round looks at it yet."
AS_OF = "Cluster clock: of what moment it is; on a large cluster that of the newest full round, null before the first."


class QueuedRow(WorkloadRow):
    """A waiting workload."""

    position = s.IntegerField(allow_null=True, help_text=PLACE)
    will_start = s.BooleanField()
    expected_start = ExpectedStart(allow_null=True, help_text="As worked out in the background, seconds ago.")


class Queue(Page):
    """The queue, in the order of the next round."""

    results = QueuedRow(many=True)
    as_of = s.DateTimeField(allow_null=True, help_text=AS_OF)


class ReclaimPrice(Answer):
    """What it costs a training that GPUs were taken of it for another workload."""

    workers = s.IntegerField(allow_null=True, help_text="That left; null: all.")
    milli_gpu = s.IntegerField(help_text="GPUs that they had, in thousandths.")
    lost_gpu_seconds = s.FloatField(help_text="Expected: over all its GPUs, with work that is done again.")
    whose = s.ChoiceField([one.value for one in Whose], help_text="Whose GPUs they are.")
    sentence = s.CharField()


class Event(Answer):
    """Something that happened. `at` is the wall clock's time, cluster_at the cluster's."""

    id = s.IntegerField()
    at = s.DateTimeField()
    cluster_at = s.DateTimeField()
    cluster_seconds = s.FloatField()
    actor = s.CharField()
    kind = s.CharField()
    team = s.CharField(allow_blank=True)
    workload = s.UUIDField(allow_null=True)
    name = s.CharField(allow_blank=True)
    phase = s.CharField(allow_blank=True)
    reason = s.CharField(allow_blank=True)
    message = s.CharField(allow_blank=True)
    cycle = s.IntegerField(allow_null=True)
    data = s.DictField()  # type: ignore[assignment]
    reclaim_price = ReclaimPrice(allow_null=True, help_text="Null: no GPUs were taken, or it is not known.")


class StreamMessage(Answer):
    """One server-sent event: its fields, as OpenAPI 3.2 describes a stream by its items."""

    id = s.CharField(help_text="Where Last-Event-ID goes on after it.")
    event = s.ChoiceField(["begin", "state", "event"])
    data = s.CharField(help_text="JSON: a position, a Workload, or an Event.")  # type: ignore[assignment]


class EventPage(Page):
    """A page of events."""

    results = Event(many=True)


class Evicted(Answer):
    """A workload that would be preempted or (Shrunk) give up workers; nameless if the user cannot see its team."""

    uid = s.UUIDField(allow_null=True)
    name = s.CharField(allow_null=True)
    team = s.CharField()
    reason = s.CharField()


class Check(Answer):
    """One of Quota, Order, Placement, Preemption, with its sentence."""

    name = s.CharField()
    status = s.ChoiceField(["ok", "fails", "unknown"])
    message = s.CharField(allow_blank=True)


NO_SUGGESTIONS = "Why a workload that waits has no suggestions; else empty."


class Suggestion(Answer):
    """One change that would start it in the next round, the smallest of its kind; quotas and shares in milli-GPU."""

    kind = s.ChoiceField([kind.value for kind in ChangeKind])
    text = s.CharField()
    before = s.JSONField(help_text="What is asked or owned now: a number, or a name.")
    after = s.JSONField(help_text="What would do; of a stop, what it loses in milli-GPU seconds.")
    target = s.CharField(
        allow_blank=True, help_text="The quota's team, the priority class, or the workload to stop; empty if hidden."
    )
    pool = s.CharField(allow_blank=True)
    tested = s.BooleanField(help_text="A round with the change placed it.")
    is_smallest = s.BooleanField(help_text="No smaller change of the kind does: that was tested too.")
    may_apply = s.BooleanField(help_text="Whether the asker may have it applied: POST .../suggestion.")


class Place(Answer):
    """Where one member would be: its rank, its role and its number in it."""

    rank = s.IntegerField()
    role = s.CharField()
    index = s.IntegerField()
    node = s.CharField()
    gpus = s.ListField(child=s.IntegerField())


@renamed(remedies="suggestions", no_remedies="no_suggestions")
class Preview(Answer):
    """What the next round would decide about a job file."""

    phase = s.ChoiceField(PHASES)
    reason = s.CharField(allow_blank=True)
    message = s.CharField(allow_blank=True)
    numbers = s.DictField()
    position = s.IntegerField(allow_null=True, help_text=PLACE)
    in_queue = s.IntegerField(allow_null=True, help_text="How many places the queue has, all teams counted.")
    checks = Check(many=True)
    will_start = s.BooleanField(allow_null=True)
    placement = Place(many=True)
    evicts = Evicted(many=True)
    expected_start = ExpectedStart(allow_null=True)
    suggestions = Suggestion(many=True)
    no_suggestions = s.CharField(allow_blank=True, help_text=NO_SUGGESTIONS)
    standby = s.CharField(allow_blank=True, help_text="What the standby of a service costs at most; empty: nothing.")
    workload = s.DictField(help_text="The job file with defaults, and normalised.")
    as_of = s.DateTimeField(help_text="Cluster clock: of the cluster that it was tried on.")


class Worker(Answer):
    """One member's place: its rank, its role (worker, but for role members) and its number in it."""

    rank = s.IntegerField()
    role = s.CharField()
    index = s.IntegerField()
    node = s.CharField()
    pool = s.CharField()
    gpus = s.ListField(child=s.IntegerField())
    milli = s.IntegerField()
    state = s.CharField()
    pod_phase = s.CharField(allow_blank=True)
    bound_at = s.DateTimeField(allow_null=True)
    released_at = s.DateTimeField(allow_null=True)
    asleep_at = s.DateTimeField(allow_null=True, help_text="Since when a replica is on standby; null: it serves.")
    weights = s.CharField(
        allow_null=True, help_text="Of a replica on standby, where its weights are: device, to host, host, to device."
    )
    wake_seconds = s.FloatField(allow_null=True, help_text="In which it answers once it is woken; null: it serves.")
    is_lent = s.BooleanField(
        help_text="Whether it runs on a GPU that others lend: a replica on standby, or shares; milli is 0 then."
    )


class Placement(Answer):
    """Where the workers of the present attempt are."""

    attempt = s.IntegerField()
    workers = Worker(many=True)
