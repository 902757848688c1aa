"""The hours of a week: how busy people keep the demo's cluster, as parts of its busiest hours.

The curve is made up, of the usual form: full from mid-morning to the early evening of a working day, a third of that
before dawn, and flatter at the weekend. Hours are those of the cluster's clock, UTC.
"""

HOUR, DAY = 3600.0, 86_400.0
MEAN = 0.7  # of the busiest hours, over a week
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday; Monday is 0
_WORKING_DAY = (
    0.40, 0.36, 0.34, 0.33, 0.36, 0.40, 0.50, 0.66, 0.85, 0.97, 1.00, 1.00,
    0.98, 1.00, 1.00, 1.00, 1.00, 0.97, 0.88, 0.78, 0.68, 0.60, 0.52, 0.46,
)  # fmt: skip
_WEEKEND = (
    0.50, 0.46, 0.42, 0.40, 0.40, 0.42, 0.48, 0.55, 0.63, 0.72, 0.79, 0.84,
    0.87, 0.89, 0.90, 0.90, 0.90, 0.89, 0.86, 0.82, 0.76, 0.69, 0.61, 0.50,
)  # fmt: skip


def part(at: float) -> float:
    """How busy the hour is that this moment of the cluster's clock lies in: 1 in the busiest hours, MEAN on average."""
    day, hour = divmod(int(at // HOUR), 24)
    return (_WEEKEND if (day + _EPOCH_WEEKDAY) % 7 >= 5 else _WORKING_DAY)[hour]
