"""Why a workload is where it is, as lines with a check, a cross or a dash.

A waiting workload has one reason, the first that holds in a fixed order (product.md 4.3). So what comes before it was
found in order, and what comes after was not looked at.
"""

from collections.abc import Iterator

from controlplane.client.answers import UP, Explanation, Workload

ORDER = (
    "Misconfigured",
    "Suspended",
    "OnHold",
    "AdmissionGated",
    "BackoffAfterFailure",
    "BudgetExhausted",
    "NoMatchingFlavor",
    "GpuMemoryDoesNotFit",
    "WaitingForNodes",
    "ExceedsMaxQuota",
    "BehindHigherPriority",
    "WaitingForPreemptedWorkloads",
    "NonPreemptibleOverQuota",
    "WaitingForQuota",
    "FairShareExceeded",
    "OverLimit",
    "ReservedForLargerJob",
    "TopologyPlacementFailed",
    "GangIncomplete",
    "Fragmented",
    "WaitingForCapacity",
    "WaitingForPodsReady",
)
CHECKS = {
    "Ready": ("Misconfigured", "Suspended", "OnHold", "AdmissionGated", "BackoffAfterFailure"),
    "Machines": ("NoMatchingFlavor", "GpuMemoryDoesNotFit", "WaitingForNodes"),
    "Quota": (
        "BudgetExhausted",
        "ExceedsMaxQuota",
        "NonPreemptibleOverQuota",
        "WaitingForQuota",
        "FairShareExceeded",
        "OverLimit",
    ),
    "Order": ("BehindHigherPriority", "ReservedForLargerJob"),
    "Placement": ("TopologyPlacementFailed", "GangIncomplete", "Fragmented", "WaitingForCapacity"),
    "Preemption": ("WaitingForPreemptedWorkloads",),
    "Start": ("WaitingForPodsReady",),
}
SAYS = {
    "Ready": "nothing of its own keeps it back",
    "Machines": "there are machines of the kind it asks for",
    "Quota": "the team may hold what it asks for",
    "Order": "nobody goes before it",
    "Placement": "its workers fit together",
    "Preemption": "nobody has to leave first",
    "Start": "its workers come up",
}


def checks(workload: Workload, explanation: Explanation) -> Iterator[tuple[bool | None, str, str]]:
    """Yield (in order?, name, sentence); None where it was not looked at. The server's own checks go first."""
    given = explanation.document.get("checks")
    if given:
        for check in given:
            yield check.get("ok"), str(check.get("name", "")), str(check.get("message") or "")
        return
    if workload.has_ended:
        return
    reason = explanation.reason
    at = len(ORDER) if workload.phase in UP else ORDER.index(reason) if reason in ORDER else -1
    for name, reasons in CHECKS.items():
        if reason in reasons and at < len(ORDER):
            yield False, name, explanation.message
        elif max(map(ORDER.index, reasons)) < at:
            yield True, name, SAYS[name]
        else:
            yield None, name, "not looked at yet"
