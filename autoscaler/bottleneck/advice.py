"""A bottleneck in words: what the steps of a training wait for, and what would help. Source: docs/diagnosis.md."""

from collections.abc import Mapping

from autoscaler.bottleneck.detect import Diagnosis
from autoscaler.bottleneck.window import Bottleneck

WAITS: Mapping[Bottleneck, str] = {
    Bottleneck.GPU_COMPUTE: "Its GPUs are what its steps take their time from, as it should be.",
    Bottleneck.INPUT_CPU: "Its steps wait for input that its CPUs prepare.",
    Bottleneck.STORAGE: "Its steps wait for input that is read from storage.",
    Bottleneck.NETWORK: "Its steps wait for the exchange between nodes.",
    Bottleneck.PARAMETER_SERVER: "Its steps wait for the parameter servers.",
    Bottleneck.TOO_SMALL: "Its GPUs idle, though its steps hardly wait: the work of one step is too small for them.",
    Bottleneck.STRAGGLER: "Its workers wait for a slow one.",
}
HELPS: Mapping[Bottleneck, str] = {
    Bottleneck.GPU_COMPUTE: "",
    Bottleneck.INPUT_CPU: "Give each worker more CPU.",
    Bottleneck.STORAGE: "Read from faster storage, or keep the data on scratch space.",
    Bottleneck.NETWORK: "Ask for fewer nodes: more GPUs a worker, or topology.require.",
    Bottleneck.PARAMETER_SERVER: "Give it more parameter servers, or these more CPU.",
    Bottleneck.TOO_SMALL: "Ask for fewer GPUs or a share of one, or make the batch larger.",
    Bottleneck.STRAGGLER: "Have it moved off that worker's node.",
}
NO_SHORTER = (Bottleneck.GPU_COMPUTE, Bottleneck.TOO_SMALL)  # what helps makes no step shorter
UNKNOWN = "Too little is known of its steps to say what they wait for."


def told(diagnosis: Diagnosis) -> str:
    """What its steps wait for, how much of them, and what would help."""
    one = diagnosis.bottleneck
    if one is None:
        return UNKNOWN
    part = diagnosis.evidence[one].removable if one in diagnosis.evidence else 0.0
    share = f" About {100 * part:.0f} % of a step would go." if part and one not in NO_SHORTER else ""
    waits = WAITS[one]
    if one is Bottleneck.STRAGGLER and diagnosis.slow_worker is not None:
        waits = f"Its workers wait for worker {diagnosis.slow_worker}, which is slow."
    return f"{waits}{share} {HELPS[one]}".strip()
