"""How long what grows is kept: the settings, and which table each is about (docs/production.md#what-is-kept)."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

MIN_EVENTS, MIN_AUDIT_LOG = 7, 30  # days; the database's triggers allow no less (migration 0022)
MAX = 3_650  # days


@dataclass(frozen=True, slots=True)
class Retention:
    """A setting: days that rows are kept, its bounds, and what it is about."""

    variable: str
    days: int
    least: int
    about: str


EVENTS = Retention("WEFT_KEEP_EVENTS_DAYS", 30, MIN_EVENTS, "events: the history of workloads, nodes and settings")
CYCLES = Retention("WEFT_KEEP_CYCLES_DAYS", 30, 1, "rounds of the loops, with their decisions")
SAMPLES = Retention("WEFT_KEEP_SAMPLES_DAYS", 30, 7, "samples of teams and services: charts, service levels")
WORKLOAD_SAMPLES = Retention("WEFT_KEEP_WORKLOAD_SAMPLES_DAYS", 1, 1, "samples of single workloads: charts")
SERVICE_DAYS = Retention("WEFT_KEEP_SERVICE_DAYS", 400, 62, "days of services: how months kept their objectives")
AUDIT_LOG = Retention("WEFT_KEEP_AUDIT_LOG_DAYS", 365, MIN_AUDIT_LOG, "rows of the audit log")
ALL = (EVENTS, CYCLES, SAMPLES, WORKLOAD_SAMPLES, SERVICE_DAYS, AUDIT_LOG)


def from_environment(read: Callable[[str, str], str]) -> dict[str, int]:
    """Days by variable; `read` takes a name and a default. Ends the process for what cannot be meant."""
    found: dict[str, int] = {}
    for one in ALL:
        text = read(one.variable, str(one.days)).strip()
        if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or not one.least <= int(text) <= MAX:
            meant = f"Set it to whole days, {one.least} to {MAX}: how long to keep {one.about}."
            sys.exit(f"{one.variable} is {text!r}. {meant}")
        found[one.variable] = int(text)
    return found


# --- each table of the database, and why it does not grow without end ----------------------------

PRUNED, ELSEWHERE, BOUNDED, FOR_EVER = "pruned by the loop `prune`", "pruned", "bounded", "kept for ever"
KINDS = (PRUNED, ELSEWHERE, BOUNDED, FOR_EVER)
_BY_HAND = f"{FOR_EVER}: one row for each thing that a user sets up"
_CLUSTER = f"{BOUNDED}: by the machines that there are"
_LOOP = f"{BOUNDED}: one row a loop, an invariant, a reader or a table"

DECLARED = {
    "controlplane_event": f"{PRUNED}: WEFT_KEEP_EVENTS_DAYS",
    "controlplane_cycle": f"{PRUNED}: WEFT_KEEP_CYCLES_DAYS; the newest 1,000 with their input stay in any case",
    "controlplane_teamsample": f"{PRUNED}: WEFT_KEEP_SAMPLES_DAYS",
    "controlplane_servicewindow": f"{PRUNED}: WEFT_KEEP_SAMPLES_DAYS",
    "controlplane_workloadsample": f"{PRUNED}: WEFT_KEEP_WORKLOAD_SAMPLES_DAYS",
    "controlplane_serviceday": f"{PRUNED}: WEFT_KEEP_SERVICE_DAYS",
    "controlplane_auditentry": f"{PRUNED}: WEFT_KEEP_AUDIT_LOG_DAYS",
    # What was used, by whom, and how it ended.
    "controlplane_workload": f"{FOR_EVER}: what was asked and how it ended",
    "controlplane_usage": f"{FOR_EVER}: what is billed; a row for each hour and pool in which a workload held GPUs",
    "controlplane_placement": f"{FOR_EVER}: what the bill follows from; a row for each worker and attempt",
    "controlplane_servicealarm": f"{FOR_EVER}: one row a service that was ever at risk",
    "controlplane_servicescaler": f"{FOR_EVER}: one row a service that Kubernetes scales, what was last seen of that",
    "controlplane_servicestate": f"{FOR_EVER}: one row a service, what was learned of its requests",
    "controlplane_trainingdiagnosis": f"{FOR_EVER}: one row a training that reports its steps, of its newest attempt",
    "controlplane_experiment": f"{FOR_EVER}: one row for each change of a training that was tried",
    "controlplane_slownode": f"{FOR_EVER}: one row for each attempt of a training and node on which a worker was slow",
    "controlplane_revision": f"{FOR_EVER}: one row for each image and environment that a service was given",
    "controlplane_dependency": f"{FOR_EVER}: a part of what was asked",
    "controlplane_auditanchor": f"{FOR_EVER}: one a day, or one for 1,000 pruned rows",
    "controlplane_policyversion": f"{FOR_EVER}: one for each change of the policy by an administrator",
    "django_admin_log": f"{FOR_EVER}: one for each change by hand in the console",
    # What other services drop.
    "controlplane_action": f"{ELSEWHERE}: services/workloads/actions.py, performed ones but the newest",
    "controlplane_change": f"{ELSEWHERE}: by the round that reads them",
    "controlplane_delivery": f"{ELSEWHERE}: services/notifications/notices.py, after 90 days",
    "controlplane_idempotencykey": f"{ELSEWHERE}: services/workloads/idempotency.py, after 24 hours",
    "controlplane_notice": f"{ELSEWHERE}: services/notifications/notices.py, after 90 days",
    "controlplane_session": f"{ELSEWHERE}: controlplane/security/sessions.py, once over",
    "controlplane_signinfailures": f"{ELSEWHERE}: services/accounts/logins.py, after minutes",
    "controlplane_simulation": f"{ELSEWHERE}: services/scheduling/simulations.py, all but the newest",
    "controlplane_stepobservation": f"{ELSEWHERE}: services/training/lending.py, after 90 days, 20,000 at most",
    "controlplane_trainingstart": f"{ELSEWHERE}: services/training/lending.py, after 90 days, 20,000 at most",
    "controlplane_startforecast": f"{ELSEWHERE}: services/scheduling/forecasts.py, all but the newest of each",
    "django_session": f"{BOUNDED}: empty, sessions are rows of controlplane_session",
    # What follows the machines, the loops or the teams.
    **dict.fromkeys(("controlplane_clusterstate", "controlplane_gpu", "controlplane_node"), _CLUSTER),
    **dict.fromkeys(
        (
            "controlplane_audit",
            "controlplane_eventcursor",
            "controlplane_heartbeat",
            "controlplane_lease",
            "controlplane_pruned",
            "controlplane_roundview",
        ),
        _LOOP,
    ),
    "controlplane_teamuse": f"{BOUNDED}: one row a team and pool",
    "controlplane_quotapart": f"{BOUNDED}: one row a quota and cell",
    "controlplane_cellload": f"{BOUNDED}: one row a team, pool and cell",
    **dict.fromkeys(("auth_permission", "django_content_type"), f"{BOUNDED}: one row or four a table"),
    **dict.fromkeys(
        (
            "controlplane_budget",
            "controlplane_groupmapping",
            "controlplane_membership",
            "controlplane_nodepool",
            "controlplane_notificationrule",
            "controlplane_preferences",
            "controlplane_priorityclass",
            "controlplane_quota",
            "controlplane_savedview",
            "controlplane_team",
            "controlplane_template",
            "controlplane_token",
            "controlplane_user",
            "controlplane_user_groups",
            "controlplane_user_user_permissions",
            "controlplane_webhook",
            "auth_group",
            "auth_group_permissions",
        ),
        _BY_HAND,
    ),
    **dict.fromkeys(
        (
            "account_emailaddress",
            "account_emailconfirmation",
            "controlplane_providergrant",
            "mfa_authenticator",
            "socialaccount_socialaccount",
            "socialaccount_socialapp",
            "socialaccount_socialtoken",
        ),
        f"{BOUNDED}: a few rows an account",
    ),
}
