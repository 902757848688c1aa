"""When people are told how a service stands: at once when it gets worse, later when it got better, and each time once.

A standing may go to and fro at a threshold. What is told goes back only after the service stood better for as long as
the short span of the slow alert, and then to the worst that it was meanwhile. Not known is neither: nothing is told.
"""

from dataclasses import dataclass, replace

from autoscaler.sla import ALERTS, Standing

CALM_SECONDS = max(alert.short_seconds for alert in ALERTS)  # stood better for so long before that is told
_RANK = {Standing.MET: 0, Standing.AT_RISK: 1, Standing.VIOLATED: 2}


@dataclass(frozen=True, slots=True)
class Alarm:
    """How a service stands as people know it, and since when. Seconds of the cluster's clock.

    better: the worst standing since better_since, all of that time better than what is told; None: it is not better.
    """

    standing: Standing = Standing.MET
    since: float = 0.0
    better: Standing | None = None
    better_since: float | None = None


def after(alarm: Alarm, standing: Standing, at: float) -> Alarm:
    """The alarm after a look; its `since` is another one exactly when there is something to tell."""
    if standing is Standing.UNKNOWN or standing is alarm.standing:
        return replace(alarm, better=None, better_since=None)
    if _RANK[standing] > _RANK[alarm.standing]:
        return Alarm(standing, at)
    if alarm.better is None or alarm.better_since is None:
        return replace(alarm, better=standing, better_since=at)
    better = max(alarm.better, standing, key=lambda one: _RANK[one])
    if at - alarm.better_since >= CALM_SECONDS:
        return Alarm(better, at)
    return replace(alarm, better=better)
