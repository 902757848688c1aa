"""What a worker has of a GPU."""

from enum import StrEnum


class Hold(StrEnum):
    """By what a worker is on a device."""

    WHOLE = "whole"
    SHARE = "share"
    ON_DEMAND = "on-demand"  # a notebook that is on a GPU of the node while a cell runs
    STANDBY = "standby"  # a replica that is loaded and serves nothing
    LENT = "lent"  # a gang's worker on the device of a replica on standby
    HARVEST = "harvest"  # a gang's worker in the time that shares leave
