"""How far the tests are, by what each part tells, and what is said of them at the end."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

SLOWEST = 15
WIDEST = 1000  # characters of what was wrong with a test
CAUSED = "The above exception was the direct cause of the following exception:"  # between two that pytest prints


@dataclass(slots=True)
class Part:
    """What one part has told so far. Times are in seconds of one monotonic clock."""

    name: str
    began: float = 0.0
    ended: float = 0.0
    total: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    why: dict[str, str] = field(default_factory=dict)  # of each that failed, the first line that says what was wrong
    lacking: Counter[str] = field(default_factory=Counter)  # skipped tests by the program that they miss
    skipped: Counter[str] = field(default_factory=Counter)  # those skipped for another reason, by it
    seconds: dict[str, float] = field(default_factory=dict)
    test: str = ""  # that runs now
    test_began: float = 0.0

    @property
    def done(self) -> int:
        """How many of its tests are over."""
        return self.outcomes.total()

    def hear(self, said: Mapping[str, Any], now: float) -> None:
        """Take in one line of the part's."""
        event, test = said["event"], said.get("test", "")
        if event == "collected":
            self.total = said["tests"] + self.done  # what could not be collected is over already
        elif event == "began":
            self.test, self.test_began = test, now
        elif event == "failed":
            self.why.setdefault(test, _error(said["text"]))
        elif event == "ended":
            self._end(test, said)

    def _end(self, test: str, said: Mapping[str, Any]) -> None:
        self.test = ""
        self.outcomes[said["outcome"]] += 1
        self.seconds[test] = said["seconds"]
        if said["outcome"] == "failed":
            self.failed.append(test)
        elif said["missing"]:
            self.lacking[said["missing"]] += 1
        elif said["outcome"] == "skipped":
            self.skipped[said["reason"].partition("\n")[0]] += 1


def line(parts: list[Part], now: float, began: float) -> str:
    """How far all are, in one line: `3 min: 512 of 7,302 done, 1 failed, 12 skipped; now tests/... (40 s)`."""
    outcomes = sum((part.outcomes for part in parts), Counter[str]())
    running = [f"{part.test} ({now - part.test_began:.0f} s)" for part in parts if part.test]
    counts = f"{outcomes.total():,} of {sum(part.total for part in parts):,} done, {outcomes['failed']} failed"
    now_running = f"; now {', '.join(running)}" if running else ""
    return f"{(now - began) / 60:.0f} min: {counts}, {outcomes['skipped']} skipped{now_running}"


def summary(parts: list[Part]) -> Iterator[str]:
    """The lines at the end; the last is alone on its line, and of the form that CI reads."""
    for part in parts:
        yield f"{part.name}: {part.done} of {part.total} tests in {(part.ended - part.began) / 60:.1f} minutes"
    seconds = sorted(((took, test) for part in parts for test, took in part.seconds.items()), reverse=True)
    yield "the slowest:"
    yield from (f"  {took:6.1f} s  {test}" for took, test in seconds[:SLOWEST])
    files: defaultdict[str, float] = defaultdict(float)
    for took, test in seconds:
        files[test.partition("::")[0]] += took
    yield "the slowest files:"
    yield from (
        f"  {took:6.1f} s  {file}" for file, took in sorted(files.items(), key=itemgetter(1), reverse=True)[:SLOWEST]
    )
    lacking = sum((part.lacking for part in parts), Counter[str]())
    for name, count in lacking.most_common():
        yield f"skipped for want of {name}: {count}"
    if lacking:
        yield "  `scripts/get` gets what it can, and says why it cannot"
    for reason, count in sum((part.skipped for part in parts), Counter[str]()).most_common():
        yield f"skipped: {count}: {reason}"
    for part in parts:
        for test in part.failed:
            yield f"failed: {test} ({part.name})"
            yield from (f"  {why}" for why in (part.why.get(test),) if why)
    outcomes = sum((part.outcomes for part in parts), Counter[str]())
    yield f"{outcomes['passed']} passed, {outcomes['failed']} failed, {outcomes['skipped']} skipped"


def _error(text: str) -> str:
    """What was raised last, by the first line that pytest marks with an E: of a failure that is all that is left where
    only the end of a log is kept, and what was raised last tells most.
    """
    raised = text.rpartition(CAUSED)[2]
    return next((line[1:].strip() for line in raised.splitlines() if line.startswith("E ")), "")[:WIDEST]
