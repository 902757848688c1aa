"""One process at a time runs a loop; the others find the lease taken and do nothing."""

import time
from dataclasses import dataclass

from controlplane.loops.wiring import Wiring
from controlplane.services.scheduling import leases
from controlplane.services.scheduling.leases import TTL_SECONDS, HeldLease


@dataclass(frozen=True, slots=True)
class Report:
    """What one round did. `skipped` says why it did nothing at all."""

    loop: str
    did: int = 0
    took: float = 0.0  # seconds of this process
    skipped: str = ""
    is_standby: bool = False  # skipped because another process runs this loop


class Lease:
    """A loop's lease as this process sees it. Asks the database only once in a third of the time to live."""

    def __init__(self, name: str, holder: str, ttl: float = TTL_SECONDS) -> None:
        self.name = name
        self.holder = holder
        self.ttl = ttl
        self._held: HeldLease | None = None
        self._until_renewal = 0.0  # monotonic seconds

    def hold(self) -> HeldLease | None:
        """The lease, taken or renewed if that is due; None while another process has it.

        What this returns may be lost a moment later: every transaction checks it again (`HeldLease.check`).
        """
        asked = time.monotonic()
        if self._held is not None and asked < self._until_renewal:
            return self._held
        if self._held is None or not leases.renew(lease=self._held, ttl=self.ttl):
            self._held = leases.acquire(name=self.name, holder=self.holder, ttl=self.ttl)
        self._until_renewal = asked + self.ttl / 3
        return self._held

    def renew_held(self) -> None:
        """Put the expiry off while a round takes long; from any thread. One that is another's by now stays so."""
        held = self._held
        if held is not None:
            leases.renew(lease=held, ttl=self.ttl)

    @property
    def is_held(self) -> bool:
        """Whether it was ours when it was asked for last."""
        return self._held is not None

    def lost(self) -> None:
        """Forget it: a check said that it is another's."""
        self._held = None

    def release(self) -> None:
        """Give it back, so that another process need not wait until it expires."""
        if self._held is not None:
            leases.release(lease=self._held)
            self._held = None


def of(wiring: Wiring, name: str) -> Lease:
    """This process's lease of a loop."""
    lease: Lease = wiring.kept.setdefault(f"lease:{name}", Lease(name, wiring.holder))
    return lease


def held_for(wiring: Wiring, loop: str) -> list[Lease]:
    """The leases that this process has for a loop: its own, and those of the cells that it decides for."""
    kept = list(wiring.kept.items())
    return [one for key, one in kept if key == f"lease:{loop}" or key.startswith(f"lease:{loop}/")]


def release_all(wiring: Wiring) -> None:
    """Give back every lease of this process: it ends."""
    for key, kept in wiring.kept.items():
        if key.startswith("lease:"):
            kept.release()
