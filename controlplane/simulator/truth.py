"""What only the simulated cluster knows of a job: how long it really takes, and what kind of program it is."""


def simulated(*, index: int, seconds: float | None = None, kind: str = "training") -> dict[str, object]:
    """The `simulated` part of a preset's job file. seconds: of running time, None for as long as it is let."""
    truth: dict[str, object] = {}
    if seconds is not None:
        truth["duration"] = float(seconds)
    return truth
