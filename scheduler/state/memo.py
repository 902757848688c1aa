"""What rounds leave for the next ones, to save time. Nothing here decides: without it a round decides the same.

A caller that decides round after round keeps one `Memo` and hands it to each; it is not for several threads at once.
Each field belongs to one module, which alone reads and writes it.
"""

from dataclasses import dataclass, field

from scheduler.fit.capacity import EmptyCluster
from scheduler.fit.possible import Possible
from scheduler.model.history import History
from scheduler.model.settings import Settings
from scheduler.placement.chooser import Choosers
from scheduler.predict.run_times import RunTimes
from scheduler.state.known_ends import ExpectedEnds
from scheduler.state.ledger import Ledgers
from scheduler.state.pending import TimesLeft


@dataclass
class Memo:
    """One owner per field."""

    ledgers: Ledgers = field(default_factory=Ledgers)  # state/ledger.py: what each holds, and what waits
    choosers: Choosers = field(default_factory=Choosers)  # placement/chooser.py: what places were scored with
    empty: EmptyCluster = field(default_factory=EmptyCluster)  # fit/capacity.py: what the empty cluster takes
    possible: Possible = field(default_factory=Possible)  # fit/possible.py: what could start in an empty cluster
    ends: ExpectedEnds = field(default_factory=ExpectedEnds)  # state/known_ends.py: when running work will end
    left: TimesLeft = field(default_factory=TimesLeft)  # state/pending.py: for how long waiting work would run
    # actions/backfill.py: when a head's room was last found to be free, by head and pool: where to look first.
    hints: dict[tuple[str, str], float] = field(default_factory=dict)
    _times: RunTimes | None = None  # predict/run_times.py: what the history says of them

    @classmethod
    def of_one_loop(cls) -> "Memo":
        """For a caller that is done with each round before it begins the next: the ledger is handed on, not copied."""
        return cls(Ledgers(hands_on=True))

    def times(self, history: History, settings: Settings) -> RunTimes:
        """What this history says of running times."""
        if self._times is None or not self._times.holds_for(history, settings):
            self._times = RunTimes(history, settings)
        return self._times

    def fork(self) -> "Memo":
        """One for other worlds beside this one: what is learnt of places, times and nodes is shared, no ledger is."""
        known = self.choosers, self.empty, self.possible
        return Memo(Ledgers(self.ledgers), *known, ExpectedEnds(), TimesLeft(), {}, self._times)
