"""The turns of the processes on one GPU: what the daemon answers to a message, and when it speaks by itself.

The token goes from share to share (`gpushare.tokens`). All processes of a share that want it have it together, and the
share's turn ends when the last one has given it back; the driver divides the time between them. Pure: times are whole
microseconds that the caller reads, answers are values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.enforcer.busy import Busy
from controlplane.enforcer.wire import Kind, Message
from gpushare.gpu import Share
from gpushare.tokens import MILLISECOND, RULE, Rule, Tokens

Process = int  # a number that the caller gives to each
Answers = list[tuple[Process, Message]]
WATCHDOG = 1000 * MILLISECOND  # a holder that does not answer for so long hangs: the token goes on without it
QUEUED_MOST = 10_000 * MILLISECOND  # of what a process may say that it has queued


@dataclass(slots=True)
class _Share:
    processes: set[Process] = field(default_factory=set)
    asking: set[Process] = field(default_factory=set)


class Turns:
    """One GPU. Methods raise KeyError for a process that has not come."""

    def __init__(self, rule: Rule = RULE) -> None:
        self._rule = rule
        self._tokens = Tokens(rule)
        self._shares: dict[str, _Share] = {}
        self._of: dict[Process, str] = {}
        self._holder: str | None = None
        self._having: set[Process] = set()  # of the holder: those that launch
        self._late: set[Process] = set()  # it was taken from these, and they have not said a word yet
        self._granted_at = 0
        self._most: int | None = None  # how long the holder may have it at most, from then on
        self._revoked_at: int | None = None
        self._told = False  # the holder: that another one waits
        self._busy = Busy()

    def come(self, process: Process, name: str, share: Share, at: int) -> Answers:
        """A process of this share comes."""
        if name not in self._shares:
            self._shares[name] = _Share()
            self._tokens.join(name, share, at)
        self._shares[name].processes.add(process)
        self._of[process] = name
        return [(process, Message(Kind.WELCOME))]

    def change(self, name: str, share: Share, at: int) -> None:
        """The share is another one from now on."""
        if name in self._shares:
            self._tokens.change(name, share, at)

    def go(self, process: Process, at: int) -> Answers:
        """A process is gone, with the token if it had it."""
        name = self._of.pop(process)
        share = self._shares[name]
        share.processes.discard(process)
        share.asking.discard(process)
        self._late.discard(process)
        answers = self._returned(process, 0, at) if process in self._having else []
        if not share.asking and self._holder != name:
            self._tokens.withdraw(name)
        return [*answers, *self.tick(at)]

    def remove(self, name: str, at: int) -> Answers:
        """A share is gone, after all its processes. Until then it is remembered what it has had."""
        if self._shares.pop(name, None) is not None:
            self._tokens.leave(name)
        return self.tick(at)

    def busy(self, at: int) -> Mapping[str, int]:
        """Microseconds for which each share has had the token by now, also of those that were removed."""
        return self._busy.read(at)

    def forget(self, name: str) -> None:
        """What a share had that was removed is told no more."""
        self._busy.forget(name)

    def uses(self, name: str) -> bool:
        """Whether the share has the token, or wants it."""
        share = self._shares.get(name)
        return self._holder == name or bool(share and share.asking)

    def hear(self, process: Process, message: Message, at: int) -> Answers:
        """A process says something."""
        queued = min(max(message.one, 0), QUEUED_MOST)
        if message.kind is Kind.ASK:
            return self._ask(process, at)
        if message.kind is Kind.MORE:
            return self._more(process, queued, at)
        if message.kind is Kind.GIVE:
            return self._give(process, queued, at, asks=bool(message.flag))
        if message.kind is Kind.PING:
            return [(process, Message(Kind.PONG))]
        return []

    def tick(self, at: int) -> Answers:
        """What is due by now."""
        answers: Answers = []
        if self._holder is not None and self._revoked_at is not None and at >= self._revoked_at + WATCHDOG:
            self._late |= self._having
            self._having.clear()
            self._settle(at, at)
        if self._holder is None:
            answers += self._choose(at)
        elif self._revoked_at is None and self._tokens.is_owed(self._had(at), at):
            answers += self._revoke(at)
        return answers + self._tell_contended()

    def next_at(self, at: int) -> int | None:
        """When something is due without a message."""
        if self._holder is None:
            return self._tokens.next_at(at)
        if self._revoked_at is not None:
            return self._revoked_at + WATCHDOG
        return at + self._rule.shortest if self._others_wait() else None

    def _ask(self, process: Process, at: int) -> Answers:
        name = self._of[process]
        share = self._shares[name]
        self._late.discard(process)
        if name == self._holder and self._revoked_at is None:
            self._having.add(process)
            return [(process, self._grant(self._rule.shortest, at))]
        if self._holder is not None:
            self._tokens.goes_on(self._had(at))
        if not share.asking and name != self._holder:
            self._tokens.ask(name, at)
        share.asking.add(process)
        return self.tick(at)

    def _more(self, process: Process, queued: int, at: int) -> Answers:
        if process not in self._having or self._revoked_at is not None:
            return []
        end = at + queued
        grant = self._tokens.renew(max(0, self._had(end)), end)
        if grant is None:
            return self._revoke(at)
        self._granted_at, self._most = end, grant.most
        return [(one, self._grant(grant.quota, at)) for one in sorted(self._having)]

    def _give(self, process: Process, left: int, at: int, *, asks: bool) -> Answers:
        name = self._of[process]
        is_late = process in self._late
        self._late.discard(process)
        if process not in self._having and not is_late:
            return []
        if asks and is_late:
            return self._ask(process, at)
        if asks:
            self._shares[name].asking.add(process)
        return [*(self._returned(process, left, at) if not is_late else []), *self.tick(at)]

    def _returned(self, process: Process, left: int, at: int) -> Answers:
        self._having.discard(process)
        if self._having:
            return []
        self._settle(at, at + left)
        return self._choose(at, at + left)

    def _settle(self, at: int, end: int) -> None:
        self._busy.ends(at, end)
        asking = bool(self._holder in self._shares and self._shares[self._holder or ""].asking)
        self._tokens.settle(max(0, end - self._granted_at), end, asks=asking)
        self._holder = self._revoked_at = None

    def _choose(self, at: int, begins: int | None = None) -> Answers:
        """Begins: when what the last holder has queued ends."""
        grant = self._tokens.choose(at)
        if grant is None:
            return []
        share = self._shares[grant.client]
        self._holder, self._granted_at, self._most = grant.client, begins or at, grant.most
        self._having, share.asking = share.asking, set()
        self._busy.begins(grant.client, self._granted_at)
        message = self._grant(grant.quota, at)
        return [(one, message) for one in sorted(self._having)]

    def _revoke(self, at: int) -> Answers:
        self._revoked_at = at
        return [(one, Message(Kind.REVOKE)) for one in sorted(self._having)]

    def _grant(self, quota: int, at: int) -> Message:
        self._told = self._others_wait()
        most = 0 if self._most is None else max(1, self._granted_at + self._most - at)
        return Message(Kind.GRANT, int(self._told), quota, most)

    def _tell_contended(self) -> Answers:
        waits = self._others_wait()
        if self._holder is None or waits == self._told:
            return []
        self._told = waits
        return [(one, Message(Kind.CONTENDED, int(waits))) for one in sorted(self._having)]

    def _had(self, at: int) -> int:
        return at - self._granted_at

    def _others_wait(self) -> bool:
        return any(name != self._holder for name in self._tokens.wanting())
