"""Whose turn it is on a shared GPU: a token goes round, so that each client gets the part that it was promised.

The client that has the token may launch kernels. It hands the token over when its quota is used up, when it has
nothing to launch, or when a client that is further behind asks. The token goes to the client with the least *virtual
time*: the time for which it had the token, divided by its guarantee. So clients that always have work share the GPU in
the ratio of their guarantees, and a client that paused comes soon, but not with all the time that it left unused. A
limit is a bucket that fills at the limit's rate: a client whose bucket is too empty is not given the token.

Times are whole microseconds on one clock, which the caller reads; nothing here waits.
Source: docs/algorithms.md#time-on-a-shared-gpu.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gpushare.gpu import WHOLE, Share

MILLISECOND = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """The numbers of the rule, in microseconds."""

    period: int = 80 * MILLISECOND  # shared out as quotas among the clients that want the token
    shortest: int = 8 * MILLISECOND  # a quota is at least so long, or hand-overs would take too much of the GPU
    longest: int = 60 * MILLISECOND  # and at most so long, or the others would wait too long
    credit: int = 400 * MILLISECOND  # of GPU time, kept by a client that pauses
    quantum: int = 30 * MILLISECOND  # a client with a limit gets the token once it may have so much
    idle: int = 1500  # a client with nothing to launch hands the token over after so long, if another wants it
    window: int = 10_000 * MILLISECOND  # over so long no client has more than its limit


RULE = Rule()


@dataclass(frozen=True, slots=True)
class Grant:
    """The token goes to this client. quota: it ends then if another wants it; most: it ends then whatever happens."""

    client: str
    quota: int
    most: int | None


@dataclass(slots=True)
class _Account:
    share: Share
    virtual: int  # microseconds x WHOLE / guarantee
    bucket: int  # microseconds x WHOLE that it may have now; below 0: it had more, by the length of a kernel
    filled_at: int
    asks: bool = False


class Tokens:
    """The accounts of the clients of one GPU. All methods raise KeyError for a client that has not joined."""

    def __init__(self, rule: Rule = RULE) -> None:
        self._rule = rule
        self._accounts: dict[str, _Account] = {}
        self._floor = 0  # virtual time of the client that is furthest behind: where one that comes begins
        self._holder: str | None = None

    def join(self, client: str, share: Share, at: int) -> None:
        """A client comes. Raises ValueError if it is there already."""
        if client in self._accounts:
            raise ValueError(f"{client} has joined already")
        self._accounts[client] = _Account(share, self._floor, 0, at)

    def leave(self, client: str) -> None:
        """A client is gone, with the token if it had it."""
        del self._accounts[client]
        if self._holder == client:
            self._holder = None

    def change(self, client: str, share: Share, at: int) -> None:
        """A client's share is another one from now on; what it had so far counts as before."""
        account = self._accounts[client]
        self._fill(account, at)
        account.share = share

    def goes_on(self, had: int) -> None:
        """The holder has had the token for `had` so far: one that asks next is at most a credit behind where it is now.

        To be called before `ask` if the holder's turn may be longer than a quota, as it is while no other client asks.
        """
        if self._holder is not None:
            self._floor = max(self._floor, self._reached(had))

    def ask(self, client: str, at: int) -> None:
        """A client wants the token from now on."""
        account = self._accounts[client]
        if not account.asks and client != self._holder:
            account.virtual = max(account.virtual, self._floor - self._rule.credit * WHOLE // account.share.guarantee)
        account.asks = True
        self._fill(account, at)

    def withdraw(self, client: str) -> None:
        """A client does not want the token any more, which it was waiting for."""
        self._accounts[client].asks = False

    def choose(self, at: int) -> Grant | None:
        """Which client gets the token, which none holds; None: no client wants it, or may have it now (`next_at`).

        Equally far behind: the client whose name comes first.
        """
        if self._holder is not None:
            raise ValueError(f"{self._holder} has the token")
        able = [name for name, account in self._accounts.items() if account.asks and self._may_have(account, at)]
        if not able:
            return None
        name = min(able, key=lambda one: (self._accounts[one].virtual, one))
        account = self._accounts[name]
        account.asks = False
        self._fill(account, at)
        self._holder, self._floor = name, max(self._floor, account.virtual)
        most = None if account.share.limit == WHOLE else account.bucket // WHOLE
        return Grant(name, self._quota(name, able), most)

    def next_at(self, at: int) -> int | None:
        """When the first of those that ask may have the token; None: none asks."""
        waits = [self._ready_at(account, at) for account in self._accounts.values() if account.asks]
        return min(waits, default=None)

    def is_owed(self, had: int, at: int) -> bool:
        """Whether the holder, which has had the token for `had`, is to hand it over: one that asks is further behind.

        That one has to stay behind for a shortest quota of its own, so that the token does not go to and fro.
        """
        if self._holder is None:
            return False
        reached = self._reached(had)
        least = self._rule.shortest * WHOLE
        return had >= self._rule.shortest and any(
            account.virtual + least // account.share.guarantee < reached
            for account in self._accounts.values()
            if account.asks and self._may_have(account, at)
        )

    def renew(self, had: int, at: int) -> Grant | None:
        """A further quota for the holder, if it would be the next one again; None: it has to hand the token over.

        It spares the hand-over. A holder with a limit gets no more than is in its bucket, and nothing if that is less
        than a shortest quota.
        """
        if self._holder is None:
            raise ValueError("no client has the token")
        name, account = self._holder, self._accounts[self._holder]
        able = [other for other, one in self._accounts.items() if one.asks and self._may_have(one, at)]
        if any((self._accounts[other].virtual, other) < (self._reached(had), name) for other in able):
            return None
        most = None if account.share.limit == WHOLE else (self._filled(account, at) - had * WHOLE) // WHOLE
        if most is not None and most < self._rule.shortest:
            return None
        self.settle(had, at, asks=False)
        self._holder, self._floor = name, max(self._floor, account.virtual)
        return Grant(name, self._quota(name, [*able, name]), most)

    def settle(self, had: int, at: int, *, asks: bool) -> None:
        """The holder gives the token back after `had`, and asks for it again in the same breath, or not.

        It is one message: a client that asked later would find another had got its turn.
        """
        if self._holder is None:
            raise ValueError("no client has the token")
        account = self._accounts[self._holder]
        self._fill(account, at, had)
        account.virtual += had * WHOLE // account.share.guarantee
        account.asks = asks
        self._holder = None

    def wanting(self) -> Mapping[str, Share]:
        """Those that ask, by name."""
        return {name: account.share for name, account in self._accounts.items() if account.asks}

    def _reached(self, had: int) -> int:
        """The holder's virtual time by now."""
        holder = self._accounts[self._holder or ""]
        return holder.virtual + had * WHOLE // holder.share.guarantee

    def _quota(self, client: str, able: list[str]) -> int:
        rule, total = self._rule, sum(self._accounts[name].share.guarantee for name in able)
        part = rule.period * self._accounts[client].share.guarantee // total
        return min(max(part, rule.shortest), rule.longest)

    def _rate(self, account: _Account) -> int:
        """What its bucket gains in a microsecond, in 1/1000: so much below its limit that no window has more."""
        return max(1, account.share.limit - self._rule.quantum * WHOLE // self._rule.window)

    def _fill(self, account: _Account, at: int, had: int = 0) -> None:
        # What it had is taken off first: the bucket fills in that time too, and was full when it began.
        account.bucket = min(self._filled(account, at) - had * WHOLE, self._rule.quantum * WHOLE)
        account.filled_at = at

    def _filled(self, account: _Account, at: int) -> int:
        return account.bucket + (at - account.filled_at) * self._rate(account)

    def _may_have(self, account: _Account, at: int) -> bool:
        return self._ready_at(account, at) <= at

    def _ready_at(self, account: _Account, at: int) -> int:
        if account.share.limit == WHOLE:
            return at
        lacks = self._rule.quantum * WHOLE - self._filled(account, at)
        return at + max(0, -(-lacks // self._rate(account)))
