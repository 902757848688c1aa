"""What our custom resources are called. Pure."""

GROUP, VERSION = "weft.dev", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
WORKLOAD, TEAM = "Workload", "Team"
WORKLOADS, TEAMS = "workloads", "teams"
# As `kubectl` takes them, and as rows say by what they are changed.
WORKLOAD_RESOURCE, TEAM_RESOURCE = f"{WORKLOADS}.{GROUP}", f"{TEAMS}.{GROUP}"
# The Kubernetes user that last wrote the spec. The admission webhook sets it; the policy `weft-objects` lets no sender
# set it to another name than its own.
AUTHOR = "internal.weft.dev/user"
ADOPT = "weft.dev/adopt"  # "true" on a Team: it takes over the team of its name that was made in Weft


def camel(name: str) -> str:
    """`gpu_share` as Kubernetes writes it: `gpuShare`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
