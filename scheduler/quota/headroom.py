"""The teams in a queue that is simulated: what each holds, may hold, and so which is next."""

from scheduler.cycle.ordering import Claim
from scheduler.model.snapshot import FUTURE_IDLE
from scheduler.quota.tree import CLUSTER
from scheduler.state.session import Session

Held = dict[tuple[str, str], int]  # milli-GPU of a team's subtree by team and pool


class Headroom:
    """The limits of each team's subtree and what it deserves, as they are now; what it holds is an argument."""

    def __init__(self, session: Session) -> None:
        plan = session.plan
        tree, total = plan.usage.tree, plan.usage.total[FUTURE_IDLE]
        keys = [key for key in tree.quota_nodes if key[0] != CLUSTER]
        self.held: Held = {key: total[key] for key in keys}
        self._most = {key: most for key in keys if (most := tree.quota_nodes[key].most) is not None}
        self._nominal = {key: tree.quota_nodes[key].nominal for key in keys if tree.quota_nodes[key].quota is not None}
        self._shares = session.entitlement.deserved()
        self._paths = {team: path[:-1] for team, path in tree.paths.items()}
        self._pools = tree.pools

    def allow(self, team: str, pool: str, milli: int, held: Held) -> bool:
        """Whether the team may hold so much more."""
        keys = ((name, pool) for name in self._paths.get(team, ()))
        return all(held[key] + milli <= self._most[key] for key in keys if key in self._most)

    def charge(self, team: str, pool: str, milli: int, held: Held) -> None:
        """Note that the team holds so much more."""
        for name in self._paths.get(team, ()):
            if (name, pool) in held:
                held[name, pool] += milli

    def claim(self, team: str, milli: int, held: Held) -> tuple[bool, Claim]:
        """The order of teams, less first, as `ordering.in_order` has it: borrowers last, then held over deserved."""
        path = self._paths.get(team, ())
        out = []
        for name in reversed(path):
            share, total = self._shares[name], sum(held[name, pool] for pool in self._pools)
            out.append((total / share if share else float("inf"), total, -share))
        return milli > max((self._owed(path, pool, held) for pool in self._pools), default=0), tuple(out)

    def _owed(self, path: tuple[str, ...], pool: str, held: Held) -> int:
        """What the team may still take of the pool within the nominal quotas on its path."""
        left = [self._nominal[name, pool] - held[name, pool] for name in path if (name, pool) in self._nominal]
        return max(0, min(left, default=0))
