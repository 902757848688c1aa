"""The Python SDK's part about the cluster, its teams and what they used."""

from collections.abc import Iterator, Sequence

from weft.answers import Budget, Json, Node, NodePool, PriorityClass, Quota, Team, TeamShare
from weft.cells import Cell
from weft.connection import Connection, part, the_object, the_text
from weft.ledger import Gpu


class ClusterClient(Connection):
    """What a user may know of the cluster and its teams."""

    def nodes(self, *, pool: str = "", rack: str = "") -> Iterator[Node]:
        """Yield the machines."""
        return self._pages("/nodes", {"pool": pool, "rack": rack}, Node)

    def node(self, name: str) -> Node:
        """Return one machine."""
        return Node.of(self._transport.get(f"/nodes/{part(name)}"))

    def gpus(self, *, pool: str = "", node: str = "", shared: bool = False) -> Iterator[Gpu]:
        """Yield the GPUs with who holds what of each; shared: only those of which a worker has less than all."""
        asked = {"pool": pool, "node": node} | ({"shared": "true"} if shared else {})
        return self._pages("/gpus", asked, Gpu)

    def slow_workers(self, name: str) -> Json:
        """Return in which trainings a worker on a machine was named as slow: {node, trainings}."""
        return the_object(self._transport.get(f"/nodes/{part(name)}/slow-workers"))

    def node_pools(self) -> Iterator[NodePool]:
        """Yield the node pools."""
        return self._pages("/node-pools", {}, NodePool)

    def save_node_pool(self, name: str, *, takes: str = "", enforcer: str = "") -> NodePool:
        """Say for what new work may take a pool's GPUs (whole, shares or both), and what holds shares there to their
        parts: mig, mps, hami, dra, time-slicing or weft, or with `nodes` what each node says of itself."""
        body = {"takes": takes} if takes else {}
        body |= {"enforcer": enforcer} if enforcer else {}
        return NodePool.of(self._transport.send("PATCH", f"/node-pools/{part(name)}", body=body))

    def cells(self) -> Iterator[Cell]:
        """Yield the cells with their deciders and parts of quotas; none where the cluster is one cell."""
        return self._pages("/cells", {}, Cell)

    def priority_classes(self) -> Iterator[PriorityClass]:
        """Yield the priority classes."""
        return self._pages("/priority-classes", {}, PriorityClass)

    def teams(self) -> Iterator[Team]:
        """Yield the teams this user sees."""
        return self._pages("/teams", {}, Team)

    def team(self, name: str) -> Team:
        """Return one team; its document has quotas and members."""
        return Team.of(self._transport.get(f"/teams/{part(name)}"))

    def save_team(
        self,
        name: str,
        *,
        shares_with_others: bool | None = None,
        reallocation: str = "",
        notebook_park_minutes: int | None = None,
        notebook_max_milli: int | None = None,
        notebook_extend: bool | None = None,
        share_demands: Sequence[str] | None = None,
    ) -> Team:
        """Say whether a team's shares may lie beside those of other teams that allow it too, and what is done where it
        is known what makes its trainings faster: off, recommend or automatic; what must be held of its shares: memory,
        time, faults, or the name of a back-end. Of its notebooks: after how many minutes without use they are parked
        at the latest, how much of a GPU one may be guaranteed (0: no limit), and whether they may be extended. What is
        not given stays as it is."""
        body: dict[str, object] = {} if shares_with_others is None else {"shares_with_others": shares_with_others}
        body |= {"reallocation": reallocation} if reallocation else {}
        body |= {} if share_demands is None else {"share_demands": list(share_demands)}
        said = {
            "notebook_park_minutes": notebook_park_minutes,
            "notebook_max_milli": notebook_max_milli,
            "notebook_extend": notebook_extend,
        }
        body |= {field: value for field, value in said.items() if value is not None}
        return Team.of(self._transport.send("PATCH", f"/teams/{part(name)}", body=body))

    def quotas(self, *, team: str = "", pool: str = "") -> Iterator[Quota]:
        """Yield the quotas this user sees."""
        return self._pages("/quotas", {"team": team, "pool": pool}, Quota)

    def shares(self, *, team: str = "") -> Iterator[TeamShare]:
        """Yield quota, entitlement, allocation and recent usage of each team this user sees, by pool."""
        return self._pages("/shares", {"team": team}, TeamShare)

    def budgets(self, team: str) -> Iterator[Budget]:
        """Yield a team's budgets of GPU hours."""
        return self._pages(f"/teams/{part(team)}/budgets", {}, Budget)

    def save_budget(
        self, team: str, period: str, *, gpu_hours: int, is_hard: bool = False, accept_used_up: bool = False
    ) -> Budget:
        """Set a team's budget for each day, week or month.

        Raises WeftError with code UsedUpAlready if as much is used already and that is not accepted.
        """
        body = {"gpu_hours": gpu_hours, "is_hard": is_hard, "accept_used_up": accept_used_up}
        return Budget.of(self._transport.send("PUT", f"/teams/{part(team)}/budgets/{part(period)}", body=body))

    def usage(self, *, group_by: str = "team", granularity: str = "all", start: str = "", end: str = "") -> Json:
        """Return GPU hours held and computed, grouped by any of team, user, pool, workload."""
        params = {"group_by": group_by, "granularity": granularity, "from": start, "to": end}
        return the_object(self._transport.get("/usage", params))

    def sla_report(self, *, team: str = "", month: str = "") -> Json:
        """Return how services kept their objectives in a month such as `2026-11` (default: the running one)."""
        return the_object(self._transport.get("/reports/sla", {"team": team, "month": month}))

    def sla_report_csv(self, *, team: str = "", month: str = "") -> str:
        """Return the same as CSV, a row for each service."""
        return the_text(self._transport.get("/reports/sla", {"team": team, "month": month, "format": "csv"}))

    def cluster(self) -> Json:
        """Return the cluster's clock, and whether it is simulated."""
        return the_object(self._transport.get("/cluster"))
