"""Workloads and where they run. Times named *_at here are cluster-clock seconds."""

import uuid

from django.db import models
from django.db.models import Q

from controlplane.models.team import PriorityClass, Team, User
from scheduler.model.dependency import When
from scheduler.model.workload import ENDED, Kind, Phase


class Workload(models.Model):
    """One submitted workload: what was asked, and how it stands."""

    uid = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    seq = models.PositiveBigIntegerField(unique=True, help_text="Order of submission.")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="workloads")
    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=10, choices=[(k.value, k.value) for k in Kind])
    priority_class = models.ForeignKey(PriorityClass, on_delete=models.PROTECT)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL)
    spec = models.JSONField(help_text="The normalised job file.")
    managed_by = models.CharField(
        max_length=80,
        blank=True,
        default="",
        db_default="",
        help_text="The Kubernetes resource of the object that made it and alone changes it, such as "
        "workloads.weft.dev; empty: it was made here.",
    )
    # what one worker asks, and how many (columns, so that a snapshot reads no JSON)
    gpus = models.PositiveSmallIntegerField(default=0)
    share_guarantee = models.PositiveSmallIntegerField(default=0, help_text="milli-GPU; 0 = not a share")
    share_limit = models.PositiveSmallIntegerField(
        default=0,
        help_text="milli-GPU, as it is now: of a service the autoscaler may raise it (lifecycle/decisions.py)",
    )
    share_labels = models.CharField(
        max_length=191,
        blank=True,
        default="",
        db_default="",
        help_text="Affinity, anti-affinity and exclusion of the share, between commas; empty: it has none.",
    )
    gpu_memory = models.PositiveIntegerField(default=0, help_text="MiB: of the share, or least of each whole GPU")
    gpu_models = models.JSONField(default=list)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory = models.PositiveIntegerField(default=0, help_text="MiB")
    workers = models.PositiveIntegerField(default=1, help_text="Wanted now (a service: the autoscaler's number).")
    workers_min = models.PositiveIntegerField(default=1)
    workers_max = models.PositiveIntegerField(default=1)
    roles = models.JSONField(default=list, help_text="Companions: [name, count, ask] each")
    topology_require = models.PositiveSmallIntegerField(null=True)
    topology_prefer = models.PositiveSmallIntegerField(null=True)
    priority = models.IntegerField(default=0)
    preemptible = models.BooleanField(default=True)
    expected_seconds = models.FloatField(null=True)
    checkpoint_interval = models.FloatField(null=True)
    grace_seconds = models.FloatField(default=30)
    max_seconds = models.FloatField(null=True, help_text="max_duration: ends it")
    deadline = models.FloatField(null=True, help_text="A workload that still waits then is Expired")
    retries = models.PositiveSmallIntegerField(default=0)
    # how it stands
    phase = models.CharField(max_length=14, choices=[(p.value, p.value) for p in Phase], default=Phase.QUEUED)
    reason = models.CharField(max_length=40, blank=True)
    message = models.CharField(max_length=400, blank=True)
    reason_at = models.FloatField(default=0)
    version = models.PositiveIntegerField(default=1)
    attempt = models.PositiveIntegerField(default=0)
    next_rank = models.PositiveIntegerField(default=0, help_text="A rank of this attempt is never used twice")
    failures = models.PositiveIntegerField(default=0)
    submitted_at = models.FloatField()
    queued_at = models.FloatField()
    not_before = models.FloatField(null=True)
    started_at = models.FloatField(null=True, help_text="Running first seen in the current attempt")
    first_started_at = models.FloatField(null=True)
    idle_since = models.FloatField(null=True, help_text="A notebook: measured idle since; null = not, or not known")
    ended_at = models.FloatField(null=True)
    exit_code = models.IntegerField(null=True)
    attained = models.PositiveBigIntegerField(default=0, help_text="milli-GPU seconds of released placements")
    checkpointed_at = models.FloatField(null=True)
    progress = models.FloatField(null=True, help_text="Part of the work that is safe, 0..1")
    preempted_at = models.JSONField(default=list)
    preempted_by = models.JSONField(default=list)
    scaled_at = models.FloatField(null=True, help_text="When this attempt last got more or fewer workers")
    finishing = models.BooleanField(default=False, help_text="A worker is done: it does not grow any more")
    moving = models.BooleanField(default=False, help_text="Moves: a place is kept until it starts again")
    goes_to = models.JSONField(
        null=True, help_text="A running training asks to run with so many workers on each node, most first; else empty"
    )
    workers_cap = models.PositiveIntegerField(
        null=True, help_text="An elastic training runs with no more workers, as it is faster so; null: up to its most."
    )
    off = models.JSONField(null=True, help_text="Names of nodes that it asks to leave, with goes_to")
    role_counts = models.JSONField(
        null=True, help_text="With goes_to: how many members each of its roles is to have; empty: as now"
    )
    reserved_after = models.JSONField(default=list, help_text="Reserved: ids of workloads that must leave first")
    unmet = models.JSONField(default=list, help_text="names in `after` that are not met yet")
    intent = models.CharField(max_length=10, blank=True, help_text="What follows leaving: suspend, requeue or empty")
    resize = models.JSONField(
        null=True,
        help_text="CPU and memory that are being changed in place (lifecycle/resizing.py); cpu_milli and memory are "
        "the larger of before and after meanwhile.",
    )
    revision = models.PositiveIntegerField(
        default=1, db_default=1, help_text="A service: the number of the image and environment that it is to have."
    )
    surge = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Replicas beyond `workers` while a revision replaces the one before."
    )
    rollout = models.JSONField(
        null=True, help_text="How far a revision has replaced the one before (lifecycle/rollouts.py); null: it has."
    )
    awake = models.PositiveIntegerField(
        null=True, help_text="A service with standby: how many of its replicas are to serve; null: all."
    )
    standby = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Replicas that a service keeps loaded beyond those that serve."
    )
    spread = models.CharField(
        max_length=4, blank=True, default="", db_default="", help_text="Over what replicas are spread; empty: packed."
    )
    offloads = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Weights of a service's replicas on standby may wait in host memory; what a notebook has on a GPU is "
        "there while no cell runs: on demand.",
    )
    asynchronous = models.BooleanField(
        default=False, db_default=False, help_text="No worker of this training waits in a step for the slowest one."
    )
    objective_since = models.FloatField(
        null=True, help_text="When the objective was changed: requests of before do not count; null: never."
    )
    workers_planned = models.PositiveIntegerField(
        null=True,
        help_text="An elastic training runs with no more workers, as others of its team gain more from the GPUs; null: "
        "up to its most.",
    )
    batch = models.PositiveIntegerField(
        null=True,
        help_text="Examples of all workers in a step that its program is told; null: its job file names none.",
    )
    batch_wanted = models.PositiveIntegerField(
        null=True, help_text="With goes_to: with how many it is to start again; null: as now."
    )
    batch_before = models.PositiveIntegerField(
        null=True, help_text="The batch that it has again if an attempt with the one on trial fails; null: none is."
    )
    at_risk = models.BooleanField(
        default=False, db_default=False, help_text="A service: whether it is at risk of missing its objective, or has."
    )
    cell = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="Whose decider decides for it (docs/cells.md)"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"],
                condition=~Q(phase__in=sorted(p.value for p in ENDED)),
                name="one_live_workload_per_name",
            )
        ]
        indexes = [
            models.Index(fields=["phase", "seq"]),
            models.Index(fields=["team", "phase"]),
            models.Index(fields=["team", "name"]),
            models.Index(fields=["-seq"]),
            models.Index(fields=["phase", "deadline"], condition=Q(deadline__isnull=False), name="workload_deadline"),
            models.Index(fields=["uid"], condition=Q(resize__isnull=False), name="workload_resize"),
            models.Index(fields=["uid"], condition=Q(rollout__isnull=False), name="workload_rollout"),
        ]

    def __str__(self) -> str:
        return f"{self.team}/{self.name}"


class PlacementState(models.TextChoices):
    """Reserved: fixed, the place is not free yet. Bound: its pod may exist. Leaving: its pod is being ended."""

    RESERVED = "Reserved"
    BOUND = "Bound"
    LEAVING = "Leaving"
    RELEASED = "Released"


class Placement(models.Model):
    """One worker's hold on one node and its GPUs, from bound_at to released_at: the ledger of what is used."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="placements")
    attempt = models.PositiveIntegerField()
    rank = models.PositiveIntegerField()
    node = models.CharField(max_length=253)
    pool = models.CharField(max_length=40)
    gpus = models.JSONField(default=list, help_text="Device indices on the node")
    milli = models.PositiveIntegerField(default=0, help_text="milli-GPU of the whole worker")
    state = models.CharField(max_length=10, choices=PlacementState.choices)
    pod_phase = models.CharField(max_length=10, blank=True, help_text="As last observed; empty = not seen yet")
    bound_at = models.FloatField(null=True)
    released_at = models.FloatField(null=True)
    accounted_to = models.FloatField(null=True, help_text="Usage rows cover it up to here")
    is_settled = models.BooleanField(default=False, help_text="Released, and usage rows cover all of it")
    revision = models.PositiveIntegerField(default=1, db_default=1, help_text="Of the service, that its pod is made of")
    asleep_at = models.FloatField(null=True, help_text="A replica: on standby since then; null: it serves")
    lender = models.CharField(
        max_length=36,
        blank=True,
        default="",
        db_default="",
        help_text="The service on whose sleeping replica's GPU it is",
    )
    weights = models.CharField(
        max_length=8,
        blank=True,
        default="",
        db_default="",
        help_text="Where those of a replica on standby are: empty (its GPU), ToHost, Host, ToDevice or Fixed",
    )
    weights_at = models.FloatField(null=True, help_text="When they were last told to move; null: never")
    own_duty = models.FloatField(
        null=True,
        help_text="Of the shared device's time, 0..1, in which its own kernels ran, as told last; null: not told",
    )
    on_gpu = models.SmallIntegerField(
        null=True,
        help_text="A notebook on demand: index of the GPU on which its memory is, as told last; -1: in host memory; "
        "null: not told, or not on demand",
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "attempt", "rank"], name="one_placement_per_worker")]
        indexes = [
            models.Index(fields=["state"], condition=~Q(state="Released"), name="placement_live"),
            models.Index(fields=["id"], condition=Q(is_settled=False), name="placement_unsettled"),
            models.Index(fields=["released_at"], name="placement_released"),
            models.Index(fields=["lender"], condition=~Q(lender=""), name="placement_lender"),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id}-{self.attempt}-{self.rank} on {self.node}"


class Revision(models.Model):
    """An image and environment that a service has, had or was to have; none is stored before the first change."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    image = models.CharField(max_length=512)
    env = models.JSONField(default=dict)
    weight = models.PositiveSmallIntegerField(default=100, help_text="Percent of the requests that it is to get")
    made_by = models.CharField(max_length=150, blank=True, help_text="A user, or the loop that made it")
    made_at = models.FloatField()
    in_force_at = models.FloatField(help_text="When it was last asked for: the newest but the present one is undone to")
    failed = models.CharField(max_length=400, blank=True, help_text="Why it was taken back; empty: it was not")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "number"], name="one_revision_per_number")]

    def __str__(self) -> str:
        return f"{self.workload_id} revision {self.number}"


class Dependency(models.Model):
    """`workload` starts when `needs` is as `when` says (scheduler/model/dependency.py)."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="dependencies")
    needs = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="dependents")
    when = models.CharField(
        max_length=9,
        blank=True,
        default="",
        db_default="",  # for processes of the version before, while it is being replaced
        choices=[(w.value, w.value) for w in When],
        help_text="Empty: by the kind of `needs`.",
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "needs"], name="one_dependency_each")]

    def __str__(self) -> str:
        return f"{self.workload_id} after {self.needs_id}"
