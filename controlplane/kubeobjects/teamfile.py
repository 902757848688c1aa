"""What a Team object says: the team's place in the tree, its PodSecurity level, and its quotas by pool. Pure."""

from controlplane.domain.quotavalues import QUOTA_FIELDS
from controlplane.jobspec.jobfile import TEAM, WORD
from controlplane.jobspec.shapes import REQUIRED, Choice, Field, Items, Record

LEVELS = ("restricted", "baseline")
QUOTA = Record((Field("pool", WORD, "The node pool.", REQUIRED), *QUOTA_FIELDS))
TEAM_FILE = Record(
    (
        Field("parent", TEAM, "The team above it; none if absent."),
        Field("pod_security", Choice(LEVELS), "What its pods may do, in Kubernetes' own levels.", LEVELS[0]),
        Field("quotas", Items(QUOTA, 200), "What it owns, a node pool each; it has no other quotas."),
    )
)
