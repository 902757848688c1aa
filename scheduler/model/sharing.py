"""What decides whether a workload's workers may compute beside shares, and whether others may beside its own."""

from gpushare.gpu import WHOLE
from scheduler.model.workload import Workload

SERVER_ROLES = ("ps", "parameter-server", "server")  # names of the role whose members hold the parameters


def is_on_part(workload: Workload) -> bool:
    """Whether each of its workers asks for a part of a GPU only."""
    return workload.ask.share is not None and workload.ask.share.guarantee < WHOLE


def holds_parameters(role: str, milli: int) -> bool:
    """Whether a role of this name, whose members ask so many milli-GPU, is that of the parameter servers."""
    return role.lower() in SERVER_ROLES and not milli


def goes_at_own_pace(workload: Workload) -> bool:
    """Whether no worker waits for the slowest one: its user says so, or they have parameter servers."""
    return workload.asynchronous or any(holds_parameters(role.name, role.ask.milli) for role in workload.roles)
