"""Teams, quotas, priority classes, machines and usage."""

from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, PERSON, PLATFORM_ADMIN, Parameter, View, endpoint, no_body, refuse
from controlplane.api.pagination import part
from controlplane.api.serializers import details as devices
from controlplane.api.serializers import platform as answers
from controlplane.api.serializers import requests, sharing
from controlplane.jobspec import gpushares
from controlplane.jobspec.quantities import iso, moment
from controlplane.jobspec.shapes import Choice, Flag, Items, Quantity, Text
from controlplane.queries.accounts import access
from controlplane.queries.scheduling import nodes as machines
from controlplane.queries.tenancy import platform as queries
from controlplane.services.errors import Refused
from controlplane.services.scheduling import draining, nodes
from controlplane.services.tenancy import quotas, teams

LABEL = Text(253, r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", gpushares.LABEL_FIX)
MOMENT = Quantity(moment, 0, 4e9, '"2026-01-01T00:00:00Z"', ("1970-01-01T00:00:00Z", "2096-10-02T00:00:00Z"))
FORMATS = Choice(("json", "csv"))
DAY = 86_400.0
LONGEST = 366 * DAY


class Named(View):
    """Views of one thing with a name. What changes it answers with the thing as it is then."""

    def found(self, name: str) -> dict[str, Any] | None:
        """The thing, as the user may see it; None if there is none."""
        raise NotImplementedError

    def answered(self, name: str) -> Response:
        """The thing as it stands now."""
        found = self.found(name)
        if found is None:
            raise Http404
        return Response(found)


class Teams(View):
    """The user's teams."""

    @endpoint(answer=answers.TeamList, tag="teams", operation="list_teams", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List your teams with what they own, hold and borrow."""
        return self.paged(queries.team_rows(request.user), "name")


class Team(Named):
    """One team."""

    def found(self, name: str) -> dict[str, Any] | None:
        """The team with its quotas and members."""
        return queries.team(self.request.user, name)

    @endpoint(answer=answers.Team, tag="teams", operation="read_team")
    def get(self, request: Request, name: str) -> Response:
        """Read a team with its quotas and members."""
        return self.answered(name)

    @endpoint(
        answer=answers.Team,
        least=PERSON,
        body=sharing.TeamChanges,
        problems=(413, 415, 422),
        tag="teams",
        operation="change_team",
    )
    def patch(self, request: Request, name: str) -> Response:
        """Say what may lie beside its shares, what must hold them, what is done for its trainings, and of notebooks."""
        team = self.team(access.Verb.MANAGE, name)
        given = requests.read_body(sharing.TEAM_CHANGES, request.data)
        if all(value is None for value in given.values()):
            names = f"shares_with_others, reallocation, share_demands or one of {', '.join(teams.NOTEBOOKS)}"
            raise Refused(400, "Invalid", "shares_with_others", f"Nothing is asked. Give {names}.")
        said = {name: given.pop(name) for name in teams.NOTEBOOKS}
        notebooks = {name: value for name, value in said.items() if value is not None}
        teams.change(team=team, notebooks=notebooks, **given, actor=self.actor)
        return self.answered(name)


class PriorityClasses(View):
    """All priority classes."""

    @endpoint(answer=answers.PriorityClassList, tag="priorities", operation="list_priority_classes", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the priority classes."""
        return self.paged(queries.priority_classes(), "name")


class NodePools(View):
    """All node pools."""

    @endpoint(answer=answers.NodePoolList, tag="nodes", operation="list_node_pools", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the node pools with what they have and what is promised of it."""
        return self.paged(queries.node_pools(request.user), "name")


class NodePool(Named):
    """One node pool."""

    def found(self, name: str) -> dict[str, Any] | None:
        """The pool with what it has."""
        return queries.node_pool(self.request.user, name)

    @endpoint(answer=answers.NodePool, tag="nodes", operation="read_node_pool")
    def get(self, request: Request, name: str) -> Response:
        """Read a node pool."""
        return self.answered(name)

    @endpoint(
        answer=answers.NodePool,
        least=PLATFORM_ADMIN,
        body=sharing.NodePoolChanges,
        problems=(413, 415, 422),
        tag="nodes",
        operation="change_node_pool",
    )
    def patch(self, request: Request, name: str) -> Response:
        """Say for what new work may take a pool's GPUs, and what holds shares there; what runs there stays."""
        given = requests.read_body(sharing.NODE_POOL, request.data)
        takes, enforcer = given["takes"], given["enforcer"]
        if takes is None and enforcer is None:
            raise Refused(400, "Invalid", "takes", "Nothing is asked. Give takes or enforcer.")
        pool = queries.pool_at(name)
        if pool is None:
            raise Http404
        chosen = "" if enforcer == sharing.NODES_SAY else enforcer
        quotas.change_pool(pool=pool, takes=takes, enforcer=chosen, actor=self.actor)
        return self.answered(name)


class Nodes(View):
    """All machines."""

    @endpoint(
        answer=answers.NodeList,
        tag="nodes",
        operation="list_nodes",
        parameters=(Parameter("pool", LABEL, "Of this pool."), Parameter("rack", LABEL, "In this rack."), *PAGE),
    )
    def get(self, request: Request) -> Response:
        """List the machines with their GPUs and the workloads on them."""
        keys = queries.node_keys(self.given["pool"] or "", self.given["rack"])
        found = part(request, keys, lambda row: str(row["name"]), self.given["page_size"])
        return Response({**found, "results": queries.nodes(request.user, found["results"])})


class OfMachine(Named):
    """Views of one machine."""

    def found(self, name: str) -> dict[str, Any] | None:
        """The machine with its GPUs and the workloads on them."""
        return queries.node(self.request.user, name)


class Node(OfMachine):
    """One machine."""

    @endpoint(answer=answers.Node, tag="nodes", operation="read_node")
    def get(self, request: Request, name: str) -> Response:
        """Read a machine with its GPUs and the workloads on them."""
        return self.answered(name)


class SlowWorkers(View):
    """What is known of slow workers on one machine."""

    @endpoint(answer=answers.SlowNode, problems=(404,), tag="nodes", operation="read_slow_workers")
    def get(self, request: Request, name: str) -> Response:
        """Tell in which trainings a worker on a machine was named as slow, the newest first."""
        if not machines.exists(name):
            raise Http404
        found = machines.slow(name, queries.scope(request.user))
        rows = [
            {"uid": one.uid, "team": one.team, "name": one.name, "attempt": one.attempt, "rank": one.rank,
             "named_at": iso(one.at), "part": one.part}
            for one in found
        ]  # fmt: skip
        return Response({"node": name, "trainings": rows})


class Gpus(View):
    """All devices."""

    @endpoint(
        answer=devices.DeviceList,
        tag="nodes",
        operation="list_gpus",
        parameters=(
            Parameter("pool", LABEL, "Of this pool."),
            Parameter("node", LABEL, "Of this machine."),
            Parameter("shared", Flag(), "True: only GPUs of which a worker has a part, a lent one, or what is left."),
            *PAGE,
        ),
    )
    def get(self, request: Request) -> Response:
        """List the GPUs with who holds what of each and their last measured use."""
        given = self.given
        every = queries.gpu_keys(given["pool"] or "", given["node"], is_shared=bool(given["shared"]))
        found = part(request, every, lambda row: f"{row['node']}/{row['index']:04}", given["page_size"])
        return Response({**found, "results": queries.gpus(request.user, found["results"])})


class GpuProfiles(View):
    """The kinds of devices."""

    @endpoint(answer=devices.GpuProfileList, tag="nodes", operation="list_gpu_profiles", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the kinds of GPUs there are: model, memory, how many, in which pools."""
        return self.paged(queries.gpu_profiles(), "name")


class Topologies(View):
    """Where machines stand."""

    @endpoint(answer=devices.TopologyPage, tag="nodes", operation="list_topologies", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the racks by zone with their machines: the levels that `topology` of a job file names."""
        return self.paged(queries.topologies(request.user), "zone", "rack")


def _cordon(on: bool) -> type[View]:
    """The view that takes a machine out of use, or back into it."""
    verb = "cordon" if on else "uncordon"

    class Cordon(OfMachine):
        """Cordon or uncordon one machine."""

        @endpoint(answer=answers.Node, least=PLATFORM_ADMIN, tag="nodes", operation=f"{verb}_node")
        def post(self, request: Request, name: str) -> Response:
            no_body(request)
            nodes.cordon(name=name, on=on, actor=self.actor)
            return self.answered(name)

        post.__doc__ = (
            "Take a machine out of use for new work; what runs there goes on." if on else "Use a machine again."
        )

    Cordon.__name__ = f"{verb.capitalize()}Node"
    return Cordon


CORDONS = {"cordon": _cordon(True), "uncordon": _cordon(False)}


class DrainNode(OfMachine):
    """Draining one machine."""

    @endpoint(answer=answers.DrainedNode, least=PLATFORM_ADMIN, tag="nodes", operation="drain_node")
    def post(self, request: Request, name: str) -> Response:
        """Cordon a machine and have what may be pre-empted leave it with its grace; doing it again does it once."""
        no_body(request)
        left = draining.drain(name=name, actor=self.actor)
        told = [{"workload": one.uid, "team": one.team, "name": one.name, "fate": one.fate.value} for one in left]
        return Response({**self.answered(name).data, "workloads": told})


class Usage(View):
    """What was used."""

    @endpoint(
        answer=answers.Usage,
        tag="usage",
        operation="read_usage",
        parameters=(
            Parameter(
                "group_by",
                Items(Choice(tuple(queries.DIMENSIONS)), 4, is_unique=True),
                "Any of team, user, pool and workload, comma between them.",
                ("team",),
            ),
            Parameter(
                "granularity", Choice(tuple(queries.STEPS)), "One row each hour or day, or for all of it.", "day"
            ),
            Parameter("from", MOMENT, "Cluster clock; 30 days before `to` if absent."),
            Parameter("to", MOMENT, "Cluster clock; now if absent."),
        ),
    )
    def get(self, request: Request) -> Response:
        """Report GPU time held and computed, in whole hours of the cluster's clock.

        By team alone it is that of every team; by user, pool or workload that of your teams.
        """
        given = self.given
        now = queries.cluster_state()["seconds"]
        # The running hour counts: its rows are there, and they grow.
        until = now - now % 3600 + 3600 if given["to"] is None else given["to"]
        since = max(0.0, until - 30 * DAY) if given["from"] is None else given["from"]
        if since > until:
            refuse("from", f"from is {iso(since)}, which is after to, {iso(until)}. Set it before.")
        if until - since > LONGEST:
            refuse("from", "from and to are more than 366 days apart. Ask for less at once.")
        try:
            rows = queries.usage(
                request.user, group_by=given["group_by"], granularity=given["granularity"], since=since, until=until
            )
        except queries.TooMany:
            refuse("granularity", f"The report has more than {queries.MAX_ROWS} rows. Group by less, or ask for less.")
        return Response({"granularity": given["granularity"], "from": iso(since), "to": iso(until), "rows": rows})


class Cluster(View):
    """The cluster."""

    @endpoint(answer=answers.Cluster, tag="cluster", operation="read_cluster")
    def get(self, request: Request) -> Response:
        """Tell the cluster's clock and whether it is simulated."""
        return Response(queries.cluster_state())
