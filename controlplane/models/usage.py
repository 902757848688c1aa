"""What was used, and how services stood. Times are cluster-clock seconds."""

from django.db import models

from autoscaler.latency import ANSWER
from controlplane.models.team import Team


class Usage(models.Model):
    """GPU time of one workload in one hour and node pool; the same rows however often the loop runs."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    workload = models.UUIDField()
    name = models.CharField(max_length=63)
    user = models.CharField(max_length=150, blank=True)
    pool = models.CharField(max_length=40)
    hour = models.PositiveBigIntegerField(help_text="Start of the hour, cluster clock")
    held = models.PositiveBigIntegerField(default=0, help_text="milli-GPU seconds held")
    computed = models.PositiveBigIntegerField(default=0, help_text="milli-GPU seconds computing, as measured")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "pool", "hour"], name="one_usage_row")]
        indexes = [models.Index(fields=["team", "hour"])]

    def __str__(self) -> str:
        return f"{self.name} {self.hour}"


class TeamUse(models.Model):
    """Recent usage of one team's own workloads in one pool: the mean of what they held, the older the less it counts.

    `decayed` is exact as of `at`; until it is added to again it only decays. `stated` is what the scheduler is told: it
    follows in steps, so that rounds in which nothing happens stay without writes.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE)
    pool = models.CharField(max_length=40)
    decayed = models.FloatField(default=0, help_text="milli-GPU, as of `at`")
    at = models.FloatField(help_text="Cluster clock")
    stated = models.PositiveBigIntegerField(default=0, help_text="milli-GPU that the scheduler counts with")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "pool"], name="one_use_per_team_and_pool")]

    def __str__(self) -> str:
        return f"{self.team_id} in {self.pool}"


class ServiceWindow(models.Model):
    """One minute of one service: how many requests, how many were over the objective."""

    workload = models.UUIDField()
    start = models.FloatField()
    requests = models.PositiveBigIntegerField(null=True)
    over = models.PositiveBigIntegerField(null=True)
    p95_seconds = models.FloatField(null=True)
    requests_per_second = models.FloatField(null=True)
    replicas = models.PositiveIntegerField(default=0)
    wanted = models.PositiveIntegerField(default=0)
    asleep = models.PositiveIntegerField(null=True, help_text="Replicas on standby; null: it keeps none")
    lent = models.PositiveIntegerField(null=True, help_text="GPUs of these that gangs use; null: it keeps no standby")
    lent_to = models.JSONField(null=True, help_text="The same by the id of the gang's team; null: no standby")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "start"], name="one_service_window")]

    def __str__(self) -> str:
        return f"{self.workload} {self.start}"


class ServiceDay(models.Model):
    """How one service kept its objective on one day of the cluster's clock (UTC): what reports of months are made of.

    Windows are pruned before a month can be reported, so that this is noted from them each hour.
    """

    workload = models.UUIDField()
    day = models.PositiveBigIntegerField(help_text="Start of the day, cluster clock")
    until = models.FloatField(help_text="Noted up to here, cluster clock")
    availability = models.FloatField(help_text="The part of the requests that was promised, at the end")
    p95_seconds = models.FloatField(null=True, help_text="The latency that was promised, at the end")
    requests = models.PositiveBigIntegerField(default=0)
    over = models.PositiveBigIntegerField(default=0)
    met = models.PositiveSmallIntegerField(default=0, help_text="Minutes that it stood so")
    at_risk = models.PositiveSmallIntegerField(default=0)
    violated = models.PositiveSmallIntegerField(default=0)
    unknown = models.PositiveSmallIntegerField(default=0)
    budget_left = models.FloatField(null=True, help_text="Part of the error budget left at the end; null = not known")
    worst_start = models.FloatField(null=True, help_text="The minute with the most late requests; null = none was late")
    worst_requests = models.PositiveBigIntegerField(default=0)
    worst_over = models.PositiveBigIntegerField(default=0)
    p95_of = models.CharField(max_length=16, default=ANSWER, db_default=ANSWER, help_text="What that latency is of")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "day"], name="one_service_day")]
        indexes = [models.Index(fields=["day"], name="service_day_day")]

    def __str__(self) -> str:
        return f"{self.workload} {self.day}"


class ServiceState(models.Model):
    """What the autoscaler remembers of one service from look to look: what it learned of a request, and the trend."""

    workload = models.UUIDField(primary_key=True)
    at = models.FloatField(help_text="Cluster clock of the newest look")
    state = models.JSONField(help_text="As controlplane/domain/lawstate.py writes it")

    def __str__(self) -> str:
        return f"{self.workload} {self.at}"


class TrainingDiagnosis(models.Model):
    """What slows one training, as its newest attempt was seen (services/training/diagnoses.py)."""

    workload = models.UUIDField(primary_key=True)
    attempt = models.PositiveIntegerField()
    at = models.FloatField(help_text="Cluster clock of the newest look")
    since = models.FloatField(help_text="Cluster clock: since when that is named")
    bottleneck = models.CharField(max_length=20, blank=True, help_text="Empty: too little is known")
    state = models.JSONField(help_text="As controlplane/domain/diagnosisstate.py writes it")
    course = models.JSONField(default=dict, help_text="What is tried, as controlplane/domain/coursestate.py writes it")

    def __str__(self) -> str:
        return f"{self.workload} {self.bottleneck}"


class ExperimentStatus(models.TextChoices):
    """What became of a change on trial."""

    ON_TRIAL = "on_trial", "on trial"
    KEPT = "kept", "kept"
    ROLLED_BACK = "rolled_back", "rolled back"
    REFUSED = "refused", "refused"
    UNJUDGED = "unjudged", "not judged"
    STAYED = "stayed", "not faster, not moved back"


class Experiment(models.Model):
    """A change of a training on trial. before, after: what it has, as controlplane/domain/coursestate.py writes it.

    Gains are natural logarithms of the ratio of speeds; errors are standard errors.
    """

    workload = models.ForeignKey("Workload", on_delete=models.CASCADE, related_name="experiments")
    attempt = models.PositiveIntegerField()
    axis = models.CharField(max_length=10, help_text="What is changed")
    status = models.CharField(max_length=12, choices=ExperimentStatus.choices)
    begun_at = models.FloatField(help_text="Cluster clock")
    ended_at = models.FloatField(null=True, help_text="Cluster clock; null: on trial")
    before = models.JSONField()
    after = models.JSONField()
    expected = models.FloatField(help_text="Log of the gain that the model of its steps expects")
    expected_error = models.FloatField()
    gain = models.FloatField(null=True, help_text="Log, as measured; null: not judged")
    gain_error = models.FloatField(null=True)
    windows = models.PositiveIntegerField(default=0, help_text="That ran with the change and count")
    message = models.CharField(max_length=400, blank=True)
    node = models.CharField(max_length=253, blank=True, db_default="", help_text="That it left, as a worker was slow")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload"], condition=models.Q(status="on_trial"), name="one_experiment_on_trial"
            )
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.axis} {self.status}"


class StepObservation(models.Model):
    """How long steps took with one allocation of a training, for others like it (services/training/lending.py)."""

    workload = models.ForeignKey("Workload", on_delete=models.CASCADE, related_name="step_observations")
    kind = models.CharField(max_length=64, help_text="Equal for trainings that are alike")
    allocation = models.TextField(help_text="As JSON")
    step = models.FloatField(help_text="Seconds")
    exchange = models.FloatField(null=True, help_text="Seconds; null: not known")
    wait = models.FloatField(null=True, help_text="Seconds, for input; null: not known")
    error = models.FloatField(help_text="Deviation of the logarithm of step")
    at = models.FloatField(help_text="Cluster clock")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "allocation"], name="one_observation_each")]
        indexes = [models.Index(fields=["kind", "-at"], name="step_observation_kind")]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.step}"


class TrainingStart(models.Model):
    """How long one attempt of a training took to its first step (services/training/lending.py)."""

    workload = models.ForeignKey("Workload", on_delete=models.CASCADE, related_name="starts")
    attempt = models.PositiveIntegerField()
    kind = models.CharField(max_length=64, help_text="Equal for trainings that are alike")
    at = models.FloatField(help_text="Cluster clock: its first step")
    leave = models.FloatField(null=True, help_text="Seconds in which the attempt before left; null: it was not told to")
    begin = models.FloatField(help_text="Seconds from having its places to its first step")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "attempt"], name="one_start_of_an_attempt")]
        indexes = [models.Index(fields=["kind", "-at"], name="training_start_kind")]

    def __str__(self) -> str:
        return f"{self.workload_id} {self.attempt}: {self.begin:.0f} s"


class SlowNode(models.Model):
    """A worker of a training was named as slow on a node (services/training/diagnoses.py), once for each attempt."""

    workload = models.ForeignKey("Workload", on_delete=models.CASCADE, related_name="slow_nodes")
    attempt = models.PositiveIntegerField()
    node = models.CharField(max_length=253)
    rank = models.PositiveIntegerField()
    at = models.FloatField(help_text="Cluster clock, when it was named first")
    part = models.FloatField(help_text="Of a step that would go without it, 0..1")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload", "attempt", "node"], name="one_naming_of_a_slow_node")
        ]
        indexes = [models.Index(fields=["node", "at"], name="slow_node")]

    def __str__(self) -> str:
        return f"{self.node} by {self.workload_id}"


class ServiceScaler(models.Model):
    """Kubernetes' autoscaler of a service with `scaling: native`: what it is told, and what it says of itself."""

    workload = models.UUIDField(primary_key=True)
    at = models.FloatField(null=True, help_text="Cluster clock: when the load was measured; null: not yet")
    in_flight = models.PositiveBigIntegerField(null=True, help_text="Thousandths of requests; null: not known")
    target = models.PositiveBigIntegerField(null=True, help_text="Thousandths of requests in flight for each replica")
    seen_at = models.FloatField(null=True, help_text="Cluster clock of the newest look at it; null: none yet")
    current = models.PositiveIntegerField(null=True, help_text="Replicas that it has seen")
    desired = models.PositiveIntegerField(null=True, help_text="Replicas that it wants")
    conditions = models.JSONField(default=list, help_text="[type, status, reason, message] each, in its own words")
    other_owner = models.CharField(max_length=200, blank=True, help_text="What else writes the number of replicas")

    def __str__(self) -> str:
        return f"{self.workload} {self.desired}"


class ServiceAlarm(models.Model):
    """How one service stands as people were told (autoscaler/alarms.py); no row: it was never at risk."""

    workload = models.UUIDField(primary_key=True)
    standing = models.CharField(max_length=10)
    since = models.FloatField(help_text="Cluster clock; another one exactly when there is something to tell")
    better = models.CharField(max_length=10, blank=True, help_text="The worst that it was since it stands better")
    better_since = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"{self.workload} {self.standing}"


class TeamSample(models.Model):
    """One team's GPUs at one moment, in milli-GPU, for the history chart."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE)
    at = models.FloatField()
    nominal = models.PositiveBigIntegerField()
    held = models.PositiveBigIntegerField()
    computing = models.PositiveBigIntegerField()
    waiting = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "at"], name="one_sample")]
        indexes = [models.Index(fields=["at"])]

    def __str__(self) -> str:
        return f"{self.team_id} {self.at}"


class WorkloadSample(models.Model):
    """What one running workload used at one moment, for the charts of its page; null = not known.

    Duty and memory are means over its workers. They are known of whole GPUs only: what is measured of a device that
    several share belongs to none of them.
    """

    workload = models.UUIDField()
    at = models.FloatField(help_text="Cluster clock")
    duty = models.FloatField(null=True, help_text="Part of the time in which its GPUs computed, 0..1")
    memory = models.PositiveIntegerField(null=True, help_text="MiB in use on each of its GPUs")
    step_seconds = models.FloatField(null=True, help_text="A training's time for one step")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "at"], name="one_workload_sample")]
        indexes = [models.Index(fields=["at"], name="workload_sample_at")]

    def __str__(self) -> str:
        return f"{self.workload} {self.at}"
