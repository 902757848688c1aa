"""What the admission server looks up: owners in the API server, people in the database."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from controlplane.adopted.kinds import CRON_JOBS, USER, at
from controlplane.cluster.kubernetes.api import Api, RefusedError
from controlplane.cluster.kubernetes.connection import find
from controlplane.cluster.kubernetes.tops import Tops
from controlplane.queries.accounts import access, kubernetes_users
from controlplane.webhook.review import Json, Top

P = ParamSpec("P")
MISSING = 404
OF_KUBERNETES = ("system:serviceaccount:kube-system:", "system:kube-controller-manager")


class WorldLookup:
    """The `Lookup` of a real cluster. Owners are asked for in the thread of the connection to the API server."""

    def __init__(self, api: Api | None = None, prefix: str | None = None) -> None:
        self._api = api or Api(find(), name="kubernetes-lookups")
        self._tops = Tops(self._api)
        self._prefix = settings.NAMESPACE_PREFIX if prefix is None else prefix

    async def top(self, namespace: str, references: list[Json]) -> Top | None:
        """The object at the top of these ownerReferences."""
        if (known := self._tops.known(references)) is not None:
            return known
        return await asyncio.wrap_future(self._api.submit(self._tops.top(namespace, references)))

    async def author(self, namespace: str, reference: Json) -> str:
        """The Kubernetes user that wrote a CronJob."""
        return await asyncio.wrap_future(self._api.submit(self._author(namespace, reference)))

    async def _author(self, namespace: str, reference: Json) -> str:
        group, version, plural = CRON_JOBS
        path = f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{reference['name']}"
        try:
            found = await self._api.request("GET", path)
        except RefusedError as error:
            if error.status == MISSING:
                return ""
            raise
        same = found["metadata"]["uid"] == reference.get("uid")
        return str(at(found, "metadata", "annotations", USER) or "") if same else ""

    async def refusal(self, username: str, team: str) -> str:
        """Why this Kubernetes user may not submit in a team; empty if they may."""
        return await sync_to_async(_once_more(_refusal), thread_sensitive=False)(username, team)

    async def objection(self, operation: str, thing: Json, old: Json | None, username: str) -> str:
        """Why a custom resource of ours may not be written so."""
        return await sync_to_async(_once_more(kubernetes_users.decide), thread_sensitive=False)(
            operation, thing, old, username
        )

    def is_controller(self, username: str) -> bool:
        """Kubernetes' own controllers, and those that a setting names."""
        return username.startswith(OF_KUBERNETES) or username in settings.CONTROLLERS

    def team(self, namespace: str) -> str:
        """A team's namespace is named after it; a policy sees to that."""
        return namespace.removeprefix(self._prefix)


def _once_more(ask: Callable[P, str]) -> Callable[P, str]:
    """Each thread keeps its connection; where that has broken meanwhile it is asked again over a new one."""

    def asked(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return ask(*args, **kwargs)
        except (OperationalError, InterfaceError):
            connection.close()
            return ask(*args, **kwargs)

    return asked


def _refusal(username: str, team: str) -> str:
    user = kubernetes_users.resolve(username)
    if user is None:
        return kubernetes_users.unknown(username)
    if access.can(user, access.Verb.SUBMIT, team):
        return ""
    role = access.roles(user).get(team)
    return (access.NO_TEAM if role is None else access.LOW_ROLE).format(team=team)
