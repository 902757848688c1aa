"""`manifests`: what must never get into a team's namespace is sent to a real API server, past our own builder.

Every attempt is sent three times, as a dry run: to the same cluster without fences, where it must be
accepted (else it is unsound, and its refusal would prove nothing); with the admission policy alone; with all fences.
"""

import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.manifests import forbidden, policy, system, teams
from controlplane.manifests.forbidden import Attempt
from controlplane.manifests.site import BASELINE, PROVISIONER, RESTRICTED, SCHEDULER, Json, Site, TeamSpace
from controlplane.testbed.kubernetes import TestCluster, test_cluster
from scheduler.model.snapshot import Node

SITE = Site(registries=(forbidden.REGISTRY,), fence_gpus=True)
UNFENCED = "privileged"
NODE = Node(forbidden.NODE, pool="h100", model="H100", gpus=8, gpu_memory=81_920, cpu_milli=64_000, memory=524_288)
FENCES = {  # by what the API server says
    "ValidatingAdmissionPolicy": "policy",
    "violates PodSecurity": "PodSecurity",
    "exceeded quota": "ResourceQuota",
}
FORBIDDEN = 403
IN_FORCE_SECONDS = 30.0  # until the API server has read new policies and labels
IN_FLIGHT = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said to one attempt; an empty refusal means that it was accepted."""

    attempt: Attempt
    refusal: str
    fence: str  # that refused it; empty when none of ours did


@dataclass(frozen=True, slots=True)
class DryRun:
    """All answers: without fences, by the policy alone, with all fences; and the builder's own pods with all."""

    unfenced: tuple[Answer, ...]
    by_policy: tuple[Answer, ...]
    fenced: tuple[Answer, ...]
    allowed: tuple[Answer, ...]

    @property
    def rejected(self) -> int:
        """Attempts that were accepted without fences, and refused by one of them."""
        return sum(not free.refusal and bool(ours.fence) for free, ours in zip(self.unfenced, self.fenced, strict=True))


def run(options: Options, progress: Progress) -> Result:
    """Start a cluster, try."""
    with tempfile.TemporaryDirectory(prefix="weft-manifests-") as folder:
        progress(0.0, "starting a cluster")
        with test_cluster(Path(folder), nodes=[NODE]) as cluster:
            done = dry_run(cluster, progress)
    if refused := [a for a in done.allowed if a.refusal]:
        raise BenchmarkError(f"A pod of the builder's was refused: {refused[0].attempt.name}: {refused[0].refusal}")
    fences = Counter(answer.fence for answer in done.fenced if answer.fence)
    notes = [
        f"{done.rejected} of {len(done.fenced)} refused with all fences: "
        + ", ".join(f"{count} by {name}" for name, count in fences.most_common()),
        f"{sum(bool(a.fence) for a in done.by_policy)} refused by the admission policy alone",
        f"{len(done.allowed)} pods of the builder's accepted",
        *(f"unsound: {a.attempt.name}: {a.refusal}" for a in done.unfenced if a.refusal),
        *(f"accepted: {a.attempt.name}" for a in done.fenced if not a.fence),
    ]
    percent = 100 * done.rejected / len(done.fenced)
    return Result((Figure("manifests.rejected_percent", percent, "%", 100.0, higher_is_better=True),), tuple(notes))


def dry_run(cluster: TestCluster, progress: Progress = lambda part, what: None) -> DryRun:
    """Try every attempt on this cluster, which has a node `a` and no policies yet."""
    cluster.apply([*system.system(SITE), *_teams(UNFENCED, UNFENCED, is_fenced=False), *forbidden.prerequisites(SITE)])
    account = f"/api/v1/namespaces/{forbidden.PLAIN}/serviceaccounts/default"
    cluster.wait_for(lambda: cluster.exists(account), "the service account")
    with _Sender(cluster) as sender:
        sender.create(forbidden.existing(SITE))
        attempts = forbidden.attempts(SITE)
        progress(0.2, f"{len(attempts)} attempts without fences")
        unfenced = sender.send(attempts)
        progress(0.4, "with the admission policy")
        policies = policy.policies(SITE)
        cluster.apply(policies)
        # That of Workload and Team objects is tried where their definitions are: tests/controlplane/intake.
        own = {str(p["metadata"]["name"]) for p in policies} - {"weft-objects"}  # type: ignore[index]
        by_policy = sender.until(attempts, lambda answers: own <= _named(answers, own))
        progress(0.7, "with all fences")
        cluster.apply(_teams(RESTRICTED, BASELINE, is_fenced=True))
        fenced = sender.until(attempts, lambda answers: set(FENCES.values()) <= {a.fence for a in answers})
        allowed = sender.send(forbidden.allowed(SITE))
    return DryRun(unfenced, by_policy, fenced, allowed)


def _teams(level: str, other: str, *, is_fenced: bool) -> list[Json]:
    """The two teams' namespaces; ResourceQuota only with the fences."""
    spaces = (
        TeamSpace(forbidden.TEAM, level, forbidden.FENCED_GPUS),
        TeamSpace(forbidden.ROOMY, other, forbidden.FENCED_GPUS),
    )
    objects = [one for space in spaces for one in teams.team(SITE, space)]
    return [one for one in objects if is_fenced or one["kind"] != "ResourceQuota"]


def _named(answers: Sequence[Answer], policies: set[str]) -> set[str]:
    """The policies that refused something."""
    return {name for name in policies for answer in answers if f"'{name}'" in answer.refusal}


class _Sender:
    """Sends attempts as the accounts that they name."""

    def __init__(self, cluster: TestCluster) -> None:
        space = SITE.namespace
        users = {
            forbidden.ADMIN: "admin",
            forbidden.SCHEDULER: f"{space}/{SCHEDULER}",
            forbidden.PROVISIONER: f"{space}/{PROVISIONER}",
            forbidden.OWNER: f"{forbidden.PLAIN}/{forbidden.OWNER}",
        }
        self._tokens = {account: cluster.token(user) for account, user in users.items()}
        verify = ssl.create_default_context(cafile=str(cluster.ca))
        self._http = httpx.Client(base_url=cluster.url, verify=verify, timeout=60, trust_env=False)

    def __enter__(self) -> "_Sender":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def create(self, made: Sequence[Attempt]) -> None:
        """Carry these out. Raises BenchmarkError when one is refused."""
        for one in made:
            answer = self._answer(one, is_dry_run=False)
            if answer.refusal:
                raise BenchmarkError(f"{one.name} was refused: {answer.refusal}")

    def send(self, attempts: Sequence[Attempt]) -> tuple[Answer, ...]:
        """Try these; nothing is written."""
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return tuple(pool.map(self._answer, attempts))

    def until(self, attempts: Sequence[Attempt], is_in_force: Callable[[Sequence[Answer]], bool]) -> tuple[Answer, ...]:
        """The answers once all that was just applied is in force."""
        deadline = time.monotonic() + IN_FORCE_SECONDS
        while not is_in_force(self.send(attempts)):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"The fences were not in force after {IN_FORCE_SECONDS:g} s.")
            time.sleep(0.5)
        return self.send(attempts)

    def _answer(self, attempt: Attempt, *, is_dry_run: bool = True) -> Answer:
        answer = self._http.request(
            attempt.method,
            attempt.path,
            params={"dryRun": "All"} if is_dry_run else {},
            json=attempt.body,
            headers={
                "Authorization": f"Bearer {self._tokens[attempt.account]}",
                "Content-Type": attempt.content_type,
            },
        )
        if not answer.is_error:
            return Answer(attempt, "", "")
        found: dict[str, Any] = answer.json()
        refusal = f"{answer.status_code} {found.get('message', '')}"
        fence = next((name for mark, name in FENCES.items() if mark in refusal), "")
        return Answer(attempt, refusal, fence if answer.status_code == FORBIDDEN else "")
