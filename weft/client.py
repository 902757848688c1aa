"""The Python SDK: one typed method for each thing the API does."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from weft import follow, streams
from weft.answers import (
    ENDED,
    LIVE,
    Acted,
    Applied,
    Cost,
    Diff,
    Eta,
    Event,
    Explanation,
    Json,
    Logs,
    Me,
    Pod,
    Preview,
    Token,
    Workload,
)
from weft.cluster import ClusterClient
from weft.connection import PAGE, new_key, part, path_of, the_object, the_results
from weft.errors import NotFound, WeftError
from weft.follow import Notice, silent

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


class Client(ClusterClient):
    """A connection to one Weft server as one user. Use it in a `with`, or close() it.

    Every method raises WeftError: NotReachable, NotSignedIn, NotFound, Conflict, or itself with the server's words.
    Reads, and submissions (each with its own idempotency key), are repeated when the connection fails.
    Not to be shared between threads.
    """

    # --- who am I ----------------------------------------------------------------------------

    def login(self, username: str, password: str, *, name: str = "sdk", code: str = "") -> Token:
        """Exchange a password for a token; the client itself stays as it was.

        code: of the authenticator app, for a user with two-factor authentication; NotSignedIn with code
        "CodeNeeded" asks for it.
        """
        body = {"username": username, "password": password, "name": name}
        if code:
            body["code"] = code
        return Token.of(self._transport.send("POST", "/login", body=body))

    def whoami(self) -> Me:
        """Return the user the token belongs to."""
        return Me.of(self._transport.get("/me"))

    def revoke_token(self, token_id: int) -> None:
        """Revoke a token of this user."""
        self._transport.send("DELETE", f"/tokens/{token_id}")

    # --- workloads ---------------------------------------------------------------------------

    def submit(self, job: Mapping[str, Any], *, key: str = "") -> Workload:
        """Submit one job file. The same key within a day submits once, however often it is sent."""
        return Workload.of(self._transport.send("POST", "/workloads", body=dict(job), key=key or new_key()))

    def submit_all(self, jobs: Sequence[Mapping[str, Any]], *, key: str = "") -> tuple[Workload, ...]:
        """Submit several job files, all or none; they may name each other in `after`."""
        body = [dict(job) for job in jobs]
        answer = self._transport.send("POST", "/workloads:batch", body=body, key=key or new_key())
        return the_results(answer, Workload)

    def apply(self, job: Mapping[str, Any], *, key: str = "") -> Applied:
        """Submit a job file, or change the live workload of its name to what the file says."""
        return Applied.of(self._transport.send("POST", "/workloads:apply", body=dict(job), key=key or new_key()))

    def diff(self, job: Mapping[str, Any]) -> Diff:
        """Tell what `apply` would change; nothing is written."""
        return Diff.of(self._transport.send("POST", "/workloads:diff", body=dict(job), key=new_key()))

    def preview(self, job: Mapping[str, Any]) -> Preview:
        """Tell what would happen to a job now; nothing is written."""
        return Preview.of(self._transport.send("POST", "/workloads:preview", body=dict(job), key=new_key()))

    def get(self, name: str, *, team: str = "") -> Workload:
        """Return a workload by uid, `team/name` or name, in full.

        A name means the live workload of that name, else the newest that has ended. Raises WeftError if several
        teams have one.
        """
        return self.read(name) if _UID.match(name) else self.read(self.find(name, team=team).uid)

    def read(self, uid: str, *, wait_for: str = "", timeout: int = 30) -> Workload:
        """Return a workload by its uid.

        With wait_for ("terminal" or "running") the server answers once it is there, or after `timeout` seconds, at most
        60, as it is then: a long poll.
        """
        params = {"wait_for": wait_for, "timeout": timeout} if wait_for else {}
        return Workload.of(self._transport.get(path_of(uid), params, timeout=timeout + 15.0 if wait_for else None))

    def find(self, name: str, *, team: str = "") -> Workload:
        """Return what a list shows of the workload that a name or `team/name` means."""
        if _UID.match(name):
            return self.read(name)
        in_team, _, bare = name.rpartition("/")
        wanted = in_team or team
        found = list(self.list(team=wanted, name=bare, phase=LIVE)) or list(
            self.list(team=wanted, name=bare, phase=ENDED, limit=PAGE)
        )
        return _the_one(found, name, wanted)

    def list(
        self,
        *,
        team: str = "",
        type: str = "",  # noqa: A002 - the field's name
        phase: Sequence[str] = (),
        name: str = "",
        search: str = "",
        limit: int | None = None,
    ) -> Iterator[Workload]:
        """Yield workloads, newest first; pages are fetched as they are needed."""
        params = {"team": team, "type": type, "phase": ",".join(phase), "name": name, "q": search}
        return self._pages("/workloads", params, Workload, limit)

    def queue(self, *, team: str = "", told: Callable[[Json], None] | None = None) -> Iterator[Workload]:
        """Yield what waits, in the order in which it is served. told: gets each page; its `as_of` says of when."""
        return self._pages("/queue", {"team": team}, Workload, told=told)

    def patch(self, uid: str, changes: Mapping[str, Any], *, version: int | None = None) -> Workload:
        """Change a workload; with `version`, only if it is still the one seen (else status 412)."""
        headers = {"If-Match": f'"{version}"'} if version is not None else {}
        return Workload.of(self._transport.send("PATCH", path_of(uid), body=dict(changes), headers=headers))

    def stop(self, uid: str) -> Workload:
        """Stop a workload for good; nothing happens if it has ended."""
        return self._act(uid, "stop")

    def delete(self, uid: str) -> Workload:
        """Stop a workload (DELETE); its record stays."""
        return Workload.of(self._transport.send("DELETE", path_of(uid)))

    def suspend(self, uid: str) -> Workload:
        """Save a workload's work and take it off its GPUs until it is resumed."""
        return self._act(uid, "suspend")

    def resume(self, uid: str) -> Workload:
        """Put a suspended workload back into the queue."""
        return self._act(uid, "resume")

    def requeue(self, uid: str) -> Workload:
        """Send a running workload back to the queue, after a checkpoint."""
        return self._act(uid, "requeue")

    def act(self, verb: str, uids: Sequence[str], *, priority_class: str | None = None) -> tuple[Acted, ...]:
        """Stop, suspend, resume or requeue up to 100 workloads, or with "priority" give them another class.

        Each by itself: the result says what came of each, and a refusal raises nothing.
        """
        body: dict[str, Any] = {"verb": verb, "uids": list(uids)}
        if verb == "priority":
            body["priority_class"] = priority_class
        return the_results(self._transport.send("POST", "/workloads:act", body=body, key=new_key()), Acted)

    def connection(self, uid: str) -> Json:
        """Where a notebook is reached: `address` in the cluster, `browser_url` by a browser; `is_ready`: it runs."""
        return the_object(self._transport.send("GET", f"/notebooks/{part(uid)}/connect"))

    def extend(self, uid: str) -> Json:
        """Count a notebook's time without use from now on; return after how much of it it is parked."""
        return the_object(self._transport.send("POST", f"/notebooks/{part(uid)}/extend", key=new_key()))

    def scale(
        self, uid: str, *, count: int | None = None, least: int | None = None, most: int | None = None
    ) -> Workload:
        """Change the workers of a training that waits, or the bounds of a service."""
        given = {"count": count, "min": least, "max": most}
        body = {name: value for name, value in given.items() if value is not None}
        return Workload.of(self._transport.send("POST", f"{path_of(uid)}/scale", body=body, key=new_key()))

    def resize(self, uid: str, *, cpu: str = "", memory: str = "") -> Workload:
        """Give each worker other CPU ("8", "500m") or memory ("64Gi"), in place while it runs; what is not named stays.

        The answer's `resize` says what its workers are to have; it is None again once they have it.
        """
        now = self.read(uid)
        given = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
        resources = {**now.document["spec"]["resources"], **given}
        return self.patch(uid, {"resources": resources}, version=now.version)

    def revisions(self, uid: str) -> Json:
        """The revisions of a service: {revision, rollout, revisions}; `rollout` is None when nothing is replaced."""
        return the_object(self._transport.send("GET", f"/inferences/{part(uid)}/revisions"))

    def diagnosis(self, uid: str) -> Json:
        """What slows a training: {bottleneck, since, message, evidence, levels, ...}; bottleneck None: not known."""
        return the_object(self._transport.send("GET", f"/trainings/{part(uid)}/diagnosis"))

    def experiments(self, uid: str) -> Json:
        """What would make a training faster and what was tried: {reallocation, recommended, experiments, ...}."""
        return the_object(self._transport.send("GET", f"/trainings/{part(uid)}/experiments"))

    def take_back(self, uid: str) -> Json:
        """Have a training get what it had before Weft's newest change; the answer is as that of `experiments`."""
        path = f"/trainings/{part(uid)}/experiments/take-back"
        return the_object(self._transport.send("POST", path, body={}, key=new_key()))

    def objective_price(self, uid: str, *, p95_latency: str = "", p95_first_token: str = "", standby: str = "") -> Json:
        """What a service's objective costs at the load of its last day, and what another latency or standby would."""
        params = {"p95_latency": p95_latency, "p95_first_token": p95_first_token, "standby": standby}
        return the_object(self._transport.get(f"/inferences/{part(uid)}/slo/price", params))

    def rollback(self, uid: str, *, to: int | None = None) -> Json:
        """Have a service go back to the revision before, or to this one; the answer is as that of `revisions`."""
        body = {} if to is None else {"to": to}
        return the_object(self._transport.send("POST", f"/inferences/{part(uid)}/rollback", body=body, key=new_key()))

    def set_priority(self, uid: str, priority_class: str | None) -> Workload:
        """Give a workload another priority class; None gives it the default one."""
        body = {"priority_class": priority_class}
        return Workload.of(self._transport.send("POST", f"{path_of(uid)}/priority", body=body, key=new_key()))

    def explanation(self, uid: str, *, search: bool = False) -> Explanation:
        """Return why a workload is where it is. search: and what would start it also on a large cluster."""
        asked = {"search": "true"} if search else {}
        return Explanation.of(self._transport.get(path_of(uid) + "/explanation", asked))

    def apply_suggestion(
        self, uid: str, remedy: Mapping[str, Any], *, version: int | None = None, key: str = ""
    ) -> Workload:
        """Make one change that would start it, as its explanation lists them; the workload as it stands then.

        With `version`, only if it is still the one seen (else status 412). Conflict says what would start it instead.
        """
        body = {name: remedy[name] for name in ("kind", "after", "target", "pool") if name in remedy}
        headers = {"If-Match": f'"{version}"'} if version is not None else {}
        sent = self._transport.send(
            "POST", f"{path_of(uid)}/suggestion", body=body, headers=headers, key=key or new_key()
        )
        return Workload.of(sent)

    def events(self, uid: str, *, newest_first: bool = False, limit: int | None = None) -> Iterator[Event]:
        """Yield what happened to a workload."""
        return self._pages(path_of(uid) + "/events", {"ordering": "-id" if newest_first else "id"}, Event, limit)

    def watch(self, uid: str = "", *, team: str = "", notice: Notice = silent) -> Iterator[Event]:
        """Yield what happens from now on, to one workload until it has ended, or to all of your teams without an end.

        A broken connection goes on where it was; `notice` is told. Raises WeftError with status 410 if what happened
        meanwhile is not kept any more: read the workloads again then.
        """
        path = f"{path_of(uid)}/watch" if uid else "/workloads/watch"
        for message in streams.messages(self._transport, path, {"team": team}, notice=notice):
            if message.name == "event":
                event = Event.of(message.data)
                yield event
                if uid and event.phase in ENDED:
                    return

    def decisions(self, uid: str, *, limit: int | None = None) -> Iterator[Event]:
        """Yield what rounds decided about a workload, newest first; `document["round"]` is the round."""
        return self._pages(path_of(uid) + "/decisions", {}, Event, limit)

    def eta(self, uid: str) -> Eta:
        """Return when a workload is expected to start and to end."""
        return Eta.of(self._transport.get(path_of(uid) + "/eta"))

    def cost(self, uid: str) -> Cost:
        """Return the GPU hours of a workload and what they cost."""
        return Cost.of(self._transport.get(path_of(uid) + "/cost"))

    def metrics(self, uid: str, *, minutes: int = 60) -> Json:
        """Return what a workload's GPUs do now, and how a service fared in the last minutes."""
        return the_object(self._transport.get(path_of(uid) + "/metrics", {"minutes": minutes}))

    def pods(self, uid: str) -> Iterator[Pod]:
        """Yield the pods of a workload's present attempt."""
        return self._pages(path_of(uid) + "/pods", {}, Pod)

    def slo(self, uid: str) -> Json:
        """Return how a service stands against its objective; NotFound if it has none."""
        return the_object(self._transport.get(f"/inferences/{part(uid)}/slo"))

    def autoscaling(self, uid: str) -> Json:
        """Return how many replicas a service may have, should have and has."""
        return the_object(self._transport.get(f"/inferences/{part(uid)}/autoscaling"))

    def placement(self, uid: str) -> Json:
        """Return on which nodes and GPUs the workers of the current attempt are."""
        return the_object(self._transport.get(path_of(uid) + "/placement"))

    def logs(self, uid: str, *, tail: int | None = None, since: float | None = None, rank: int | None = None) -> Logs:
        """Return the last `tail` lines, or what came after `since` (cluster seconds)."""
        params = {"tail": tail, "since": since, "rank": rank}
        return Logs.of(self._transport.get(path_of(uid) + "/logs", params))

    def wait(self, uid: str, until: str = "terminal", timeout: float | None = None) -> Workload:
        """Wait until a workload has ended ("terminal"), is "running", or is in a phase ("Suspended").

        Returns it as well when it ended before; raises WaitTimeout after `timeout` seconds of this machine's clock.
        """
        [ended] = follow.wait(self, [uid], until=until, timeout=timeout)
        return ended

    def _act(self, uid: str, verb: str) -> Workload:
        return Workload.of(self._transport.send("POST", f"{path_of(uid)}/{verb}", key=new_key()))


def _the_one(found: Sequence[Workload], name: str, team: str) -> Workload:
    """Return the newest of the workloads with a name, if they are all of one team."""
    if not found:
        where = f" in team {team}" if team and "/" not in name else ""
        raise NotFound(f"There is no workload {name}{where} that you may see. `weft get` lists yours.", status=404)
    teams = sorted({one.team for one in found})
    if len(teams) > 1:
        choices = " or ".join(f"{team}/{found[0].name}" for team in teams)
        raise WeftError(f"{name} is the name of workloads in several teams. Write {choices}.")
    return found[0]
