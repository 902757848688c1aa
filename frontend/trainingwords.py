"""Words for what slows trainings, and for what is tried to make them faster."""

BOTTLENECKS = {
    "gpu_compute": "Its GPUs: nothing is wrong",
    "input_cpu": "Too little CPU for its input",
    "storage": "Slow storage",
    "network": "The network between nodes",
    "parameter_server": "The parameter servers",
    "too_small": "Too little work for its GPUs",
    "straggler": "A slow worker",
}
LEVELS = {
    "cpu": "CPU of its workers",
    "throttled": "Held back by the CPU limit",
    "disk": "Disk",
    "nic": "Network",
    "server_cpu": "CPU of its servers",
    "gpu": "GPUs",
}
REALLOCATION = {
    "off": "Nothing is recommended or changed",
    "recommend": "What would make them faster is said",
    "automatic": "What would make them faster is tried; what helps is kept, the rest taken back",
}
STATUSES = {  # of a change on trial
    "on_trial": ("accent", "on trial"),
    "kept": ("ok", "kept"),
    "rolled_back": ("warn", "rolled back"),
    "refused": ("bad", "refused"),
    "unjudged": ("dim", "not judged"),
    "stayed": ("warn", "not faster, stayed"),
    "planned": ("accent", "planned"),
}


def gain(ratio: float) -> str:
    """A part of the speed more or less: `+38 %`."""
    return f"{100 * ratio:+.0f}\u00a0%"
