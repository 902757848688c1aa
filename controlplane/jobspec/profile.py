"""What a job file says of the requests of its service, as a start for the law of replicas."""

from collections.abc import Mapping
from typing import Any

from autoscaler.profile import SLOWER, Profile
from controlplane.jobspec.shapes import BAD, Faults


def of_values(values: Mapping[str, Any] | None) -> Profile | None:
    """The profile that was read without a fault; None: there is none."""
    if not values:
        return None
    seconds = values["service_time"]
    return Profile(seconds, values["p95"] or SLOWER * seconds, values["slots"] or 1)


def normalised(profile: Profile) -> dict[str, Any]:
    """As it is stored beside the text, in the words of autoscaler.profile.Profile."""
    return {"seconds": profile.seconds, "p95": profile.p95, "slots": profile.slots}


def check(values: Mapping[str, Any], faults: Faults) -> None:
    """Note a p95 below the mean."""
    given = values.get("profile")
    if given in (None, BAD):
        return
    mean, p95 = given["service_time"], given["p95"]
    if BAD not in (mean, p95) and p95 is not None and p95 < mean:
        what = f"profile.p95 is {p95:g}s, which is below profile.service_time, the mean of {mean:g}s."
        faults.add("profile.p95", f"{what} Set it to at least {mean:g}s, or leave it out.")
