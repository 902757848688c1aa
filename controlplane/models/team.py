"""Tenancy: users, teams, quotas, priority classes, node pools, tokens."""

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import F, Q

from controlplane.domain.periods import Period

PERIODS = tuple((one.value, one.value) for one in Period)


class User(AbstractUser):
    """A person, or a team's service account. is_superuser = platform admin; the rest comes from memberships.

    `via` is the token that a request came with, None for a session: what it does not allow, its user may not do.
    """

    service_of = models.ForeignKey(
        "Team",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="service_accounts",
        help_text="The team that owns this service account; empty for a person.",
    )
    via: "Token | None" = None


class PodSecurity(models.TextChoices):
    """What a team's pods may do, in Kubernetes' own levels (kubernetes.io: Pod Security Standards)."""

    RESTRICTED = "restricted", "Restricted"
    BASELINE = "baseline", "Baseline: may run as root"


class Reallocation(models.TextChoices):
    """What Weft does where it knows what would make a team's trainings faster."""

    OFF = "off", "Off"
    RECOMMEND = "recommend", "Recommend: say what would help"
    AUTOMATIC = "automatic", "Automatic: try it, keep what helps, take back what does not"


class Team(models.Model):
    """A team; teams form a tree. Maps to one Kubernetes namespace."""

    name = models.SlugField(max_length=40, unique=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    colour = models.PositiveSmallIntegerField(default=0, help_text="Index of the team's colour on pages, 0..7.")
    pod_security = models.CharField(
        max_length=10,
        choices=PodSecurity.choices,
        default=PodSecurity.RESTRICTED,
        db_default=PodSecurity.RESTRICTED,
        help_text="Level of its namespace; `manage.py namespaces --apply` carries it to the cluster.",
    )
    shares_with_others = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Its shares may lie on one GPU with shares of other teams that allow it too.",
    )
    reallocation = models.CharField(
        max_length=10,
        choices=Reallocation.choices,
        default=Reallocation.RECOMMEND,
        db_default=Reallocation.RECOMMEND,
        help_text="Whether changes that make its trainings faster are recommended, or tried as well.",
    )
    notebook_park_minutes = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Minutes without use after which its notebooks are parked at the latest; 0: as job files say.",
    )
    notebook_max_milli = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="What a notebook of it may be guaranteed, in thousandths of a GPU; 0: as much as quota allows.",
    )
    notebook_extend = models.BooleanField(
        default=True, db_default=True, help_text="Whether its members may restart the idle time of a notebook."
    )
    share_demands = models.CharField(
        max_length=80,
        blank=True,
        default="",
        db_default="",
        help_text="What must be held of its shares: memory, time, faults, or the name of a back-end, with commas.",
    )
    managed_by = models.CharField(
        max_length=80,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="teams.weft.dev if a Kubernetes object alone changes it; empty: it is changed here.",
    )
    other_pods = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="Pods in its namespace that are no workloads."
    )
    other_gpus = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="Whole GPUs that those pods have."
    )
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member may do in a team. A platform admin is a superuser."""

    VIEWER = "viewer", "Viewer"
    MEMBER = "member", "Member"
    ADMIN = "admin", "Team admin"


class Source(models.TextChoices):
    """Where a membership comes from: only those from groups end when the group does."""

    HAND = "hand", "By hand"
    GROUPS = "groups", "From groups"


class Membership(models.Model):
    """A user's role in a team."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    source = models.CharField(max_length=6, choices=Source.choices, default=Source.HAND, db_default=Source.HAND)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_role_per_team")]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class Takes(models.TextChoices):
    """For what new work may take a pool's GPUs."""

    WHOLE = "whole", "Whole GPUs"
    SHARES = "shares", "Shares"
    BOTH = "both", "Whole GPUs and shares"


class Chosen(models.TextChoices):
    """What holds the shares of a pool to their parts, as chosen for it; empty: what its nodes say."""

    MIG = "mig", "MIG: instances of the GPU's hardware"
    MPS = "mps", "NVIDIA MPS"
    HAMI = "hami", "HAMi"
    DRA = "dra", "DRA: ResourceClaims"
    TIME_SLICING = "time-slicing", "Time-slicing: advisory"
    WEFT = "weft", "Weft's own, on nodes that say that it runs"


class NodePool(models.Model):
    """Nodes with one GPU model (Kueue: ResourceFlavor)."""

    name = models.SlugField(max_length=40, unique=True)
    gpu_model = models.CharField(max_length=40, blank=True)
    takes = models.CharField(
        max_length=6,
        choices=Takes.choices,
        default=Takes.BOTH,
        db_default=Takes.BOTH,
        help_text="For what new work may take its GPUs. Shares go only to nodes that are labelled for them.",
    )
    enforcer = models.CharField(
        max_length=12,
        blank=True,
        choices=Chosen.choices,
        default="",
        db_default="",
        help_text="What holds a share to its part there. Empty: what its nodes say of themselves.",
    )
    price_per_gpu_hour = models.DecimalField(max_digits=8, decimal_places=3, default=0)

    def __str__(self) -> str:
        return self.name


class Quota(models.Model):
    """What a team owns in one node pool, in milli-GPU; null = no limit."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="quotas")
    pool = models.ForeignKey(NodePool, on_delete=models.CASCADE, related_name="quotas")
    nominal = models.PositiveBigIntegerField(help_text="milli-GPU owned (1000 = one GPU)")
    borrowing_limit = models.PositiveBigIntegerField(null=True, blank=True, help_text="milli-GPU; empty = no limit")
    lending_limit = models.PositiveBigIntegerField(null=True, blank=True, help_text="milli-GPU; empty = all of it")
    weight = models.PositiveSmallIntegerField(default=1)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "pool"], name="one_quota_per_team_and_pool"),
            models.CheckConstraint(
                condition=Q(lending_limit__isnull=True) | Q(lending_limit__lte=F("nominal")),
                name="lending_at_most_nominal",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.team} in {self.pool}"


class Budget(models.Model):
    """How many GPU hours a team, with its children, may use in each day, week or month of the cluster's clock.

    `used_up_until` is the end of the period in which it was found used up, null while it is not; `used_then` is what
    had been used by then.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="budgets")
    period = models.CharField(max_length=5, choices=PERIODS)
    gpu_hours = models.PositiveBigIntegerField(help_text="GPU hours in each period")
    is_hard = models.BooleanField(default=False, help_text="Once used up nothing new starts; else it is only told.")
    used_up_until = models.FloatField(null=True, blank=True, editable=False, help_text="Cluster clock")
    used_then = models.FloatField(default=0, editable=False, help_text="GPU hours")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "period"], name="one_budget_per_team_and_period")]

    def __str__(self) -> str:
        return f"{self.team} each {self.period}"


class PriorityClass(models.Model):
    """A named priority. A higher value goes first; preemptible work may be made to leave."""

    name = models.SlugField(max_length=40, unique=True)
    value = models.IntegerField()
    preemptible = models.BooleanField(default=True)
    is_default = models.BooleanField(default=False)

    class Meta:
        verbose_name_plural = "priority classes"
        constraints = [
            models.UniqueConstraint(fields=["is_default"], condition=Q(is_default=True), name="one_default_priority")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.value})"


class Scope(models.TextChoices):
    """How much of its user's rights a token may use."""

    READ = "read", "Look only"
    SUBMIT = "submit", "Submit and act on workloads"
    ADMIN = "admin", "All that its user may do"


class Token(models.Model):
    """An API token: only its digest is kept. Times are the database's clock."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12, help_text="First characters, to recognise it.")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of 256 random bits.")
    scope = models.CharField(max_length=6, choices=Scope.choices, default=Scope.ADMIN, db_default=Scope.ADMIN)
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.CASCADE, help_text="Only there and in the teams below it."
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    issuer = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="issued_tokens",
        help_text="The person who made it. A service account's token ends with this person's role.",
    )
    made_with = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The token that it was made with, and whose end is its own; empty: a session."
    )
    told_at = models.DateTimeField(
        null=True, blank=True, help_text="When the team's admins were told that it ends with its issuer's role."
    )

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"
