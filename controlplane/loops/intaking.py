"""What one round of `intake` makes of our custom resources: for each a verdict, and the writes that follow from it."""

import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings

from controlplane.jobspec.difference import difference
from controlplane.jobspec.spec import SpecError
from controlplane.kubeobjects import conversion, review
from controlplane.kubeobjects.port import Thing
from controlplane.kubeobjects.review import Author
from controlplane.kubeobjects.status import Verdict
from controlplane.models import Team, User
from controlplane.queries.accounts import kubernetes_users
from controlplane.queries.intake import standing
from controlplane.queries.intake.standing import Standing
from controlplane.services.errors import Refused
from controlplane.services.intake import teams as team_services
from controlplane.services.intake import workloads as services
from controlplane.services.intake.workloads import Wanted
from controlplane.services.scheduling.leases import HeldLease
from scheduler.model.workload import ENDED, Phase

AGAIN_SECONDS = 15.0  # until what was refused is tried again: a name becomes free, a person gets a role
TOGETHER = 100  # objects in one transaction
OVER = frozenset(phase.value for phase in ENDED)
NOT_FENCED = (
    "The cluster does not vouch for authors: the policy weft-objects is not in force. "
    "Ask a cluster admin to apply what `manage.py manifests policy` prints."
)
NO_AUTHOR = (
    "Nothing says which user made this object, as Weft's admission server has not seen it. Ask a platform admin to run "
    "it, or apply the object with the annotation internal.weft.dev/user, your own Kubernetes user name."
)
Verdicts = dict[str, tuple[Hashable, Verdict, float]]  # by uid: of what, what, and until when (monotonic)


@dataclass
class People:
    """Authors, asked for once in a round. is_believed: the cluster sees to it that they are who they are said to be."""

    is_believed: bool
    _known: dict[str, tuple[Author, User | None]] = field(default_factory=dict)

    def of(self, username: str) -> tuple[Author, User | None]:
        """Who this Kubernetes user is here."""
        if username not in self._known:
            user = kubernetes_users.resolve(username)
            self._known[username] = kubernetes_users.author(username), user
        return self._known[username]

    def refusal(self, thing: Thing) -> Verdict | None:
        """Why the object's author counts for nothing; None if they are somebody."""
        if not self.is_believed:
            return _no("NotFenced", NOT_FENCED)
        if not thing.author:
            return _no("NoAuthor", NO_AUTHOR)
        author, user = self.of(thing.author)
        return None if user is not None else _no("UnknownUser", author.unknown)


class Round:
    """One round. `verdicts` are kept from round to round: what has not changed is not looked at again."""

    def __init__(self, lease: HeldLease, verdicts: Verdicts, people: People) -> None:
        self.did = 0
        self._lease = lease
        self._verdicts = verdicts
        self._people = people
        self._prefix: str = settings.NAMESPACE_PREFIX

    # --- what is gone ------------------------------------------------------------------------

    def end_orphans(self, there: Collection[str], standings: Mapping[str, Standing]) -> None:
        """Stop the live workloads whose objects are gone."""
        for uid, one in standings.items():
            if uid not in there and not one.has_ended and one.seen.phase is not Phase.STOPPING:
                services.end(workload=standing.workload(uid), lease=self._lease)
                self.did += 1

    def release_teams(self, there: Collection[str], teams: Mapping[str, Team]) -> None:
        """Give back to Weft the teams whose objects are gone."""
        for name, team in teams.items():
            if name not in there:
                team_services.release(team=team, lease=self._lease)
                self.did += 1

    # --- workloads ---------------------------------------------------------------------------

    def workloads(self, things: Iterable[Thing], standings: Mapping[str, Standing]) -> dict[str, Verdict]:
        """What came of each, by uid."""
        found: dict[str, Verdict] = {}
        new: list[Thing] = []
        for thing in things:
            one = standings.get(thing.uid)
            known = self._known(thing, one is not None and one.has_ended)
            if known is not None:
                found[thing.uid] = known
            elif one is not None:
                found[thing.uid] = self._note(thing, self._followed(thing, one), one.has_ended)
            elif thing.status.get("phase") in OVER:
                found[thing.uid] = Verdict("Accepted", "It has ended, and its record is kept no longer.")
            else:
                new.append(thing)
        for number in range(0, len(new), TOGETHER):
            found |= self._submitted(new[number : number + TOGETHER])
        return found

    def _submitted(self, things: Sequence[Thing]) -> dict[str, Verdict]:
        """Together where that goes, else one by one, for as long as one more is let in: `after` may name later ones."""
        found = {thing.uid: self._wanted(thing) for thing in things}
        wanted = {uid: one for uid, one in found.items() if isinstance(one, Wanted)}
        verdicts = {uid: one for uid, one in found.items() if isinstance(one, Verdict)}
        if wanted:
            verdicts |= self._together(wanted) or self._one_by_one(wanted)
        return {thing.uid: self._note(thing, verdicts[thing.uid]) for thing in things}

    def _together(self, wanted: Mapping[str, Wanted]) -> dict[str, Verdict]:
        if _refused(lambda: services.submit(wanted=list(wanted.values()), lease=self._lease)) is not None:
            return {}
        self.did += len(wanted)
        return {uid: Verdict() for uid in wanted}

    def _one_by_one(self, wanted: Mapping[str, Wanted]) -> dict[str, Verdict]:
        verdicts: dict[str, Verdict] = {}
        left, before = dict(wanted), len(wanted) + 1
        while len(left) < before:
            before = len(left)
            for uid, one in list(left.items()):
                verdict = _refused(lambda one=one: services.submit(wanted=[one], lease=self._lease))  # type: ignore[misc]
                verdicts[uid] = verdict or Verdict()
                if verdict is None:
                    del left[uid]
                    self.did += 1
        return verdicts

    def _wanted(self, thing: Thing) -> Wanted | Verdict:
        """What is to be submitted, or why nothing is."""
        if fault := review.place(thing.namespace, self._prefix):
            return _no("NoTeam", fault)
        if no := self._people.refusal(thing):
            return no
        author, user = self._people.of(thing.author)
        team = conversion.team_of(thing.namespace, self._prefix)
        if user is None or (refusal := review.may_write(thing.body, None, author, team, "")):
            return _no("Forbidden", refusal)
        try:
            spec = review.job_of(thing.body, self._prefix)
        except SpecError as error:
            return _no("Invalid", str(error))
        return Wanted(UUID(thing.uid), spec, user, conversion.is_suspended(thing.body))

    def _followed(self, thing: Thing, one: Standing) -> Verdict:
        """Have its workload be what it says."""
        workload = standing.workload(thing.uid)
        try:
            changes = difference(workload.spec, review.job_of(thing.body, self._prefix))
        except SpecError as error:
            return _no("Invalid", str(error))
        if one.has_ended:
            message = f"{workload.name} has ended. Delete this object and apply it again to run it as it is now."
            return _no("Ended", message) if changes else Verdict()
        rests = conversion.is_suspended(thing.body)
        is_to_rest = rests and workload.phase not in services.RESTS
        is_to_go_on = not rests and workload.phase in services.RESTS and workload.reason == services.BY_HAND
        if not (changes or is_to_rest or is_to_go_on):
            return Verdict()
        if no := self._people.refusal(thing):
            return no
        author, _ = self._people.of(thing.author)
        old: Mapping[str, Any] = {} if changes else thing.body
        if refusal := review.may_write(thing.body, old, author, workload.team.name, one.submitter):
            return _no("Forbidden", refusal)
        terms: dict[str, Any] = {"changes": changes, "is_suspended": rests, "actor": author.name, "lease": self._lease}
        verdict = _refused(lambda: services.follow(workload=workload, **terms))
        self.did += verdict is None
        return verdict or Verdict()

    # --- teams -------------------------------------------------------------------------------

    def teams(self, things: Sequence[Thing]) -> dict[str, Verdict]:
        """What came of each, by uid; a parent may stand behind its children."""
        found = {thing.uid: known for thing in things if (known := self._known(thing)) is not None}
        left, before = [thing for thing in things if thing.uid not in found], len(things) + 1
        while left and len(left) < before:
            before = len(left)
            found |= {thing.uid: self._note(thing, self._team(thing)) for thing in left}
            left = [thing for thing in left if not found[thing.uid].is_accepted]
        return found

    def _team(self, thing: Thing) -> Verdict:
        wanted, faults = review.quotas_of(thing.body)
        if faults.errors:
            return _no("Invalid", " ".join(error.message for error in faults.errors))
        if not team_services.differs(name=thing.name, wanted=wanted):
            return Verdict()
        if no := self._people.refusal(thing):
            return no
        author, _ = self._people.of(thing.author)
        if not author.is_admin:
            return _no("Forbidden", f"{author.name} is no platform admin of Weft, so teams are not theirs to make.")
        terms: dict[str, Any] = {"wanted": wanted, "adopts": thing.adopts, "actor": author.name, "lease": self._lease}
        verdict = _refused(lambda: team_services.follow(name=thing.name, **terms))
        self.did += verdict is None
        return verdict or Verdict()

    # --- what is known -----------------------------------------------------------------------

    def _known(self, thing: Thing, has_ended: bool = False) -> Verdict | None:
        key, verdict, until = self._verdicts.get(thing.uid, (None, Verdict(), 0.0))
        return verdict if key == _key(thing, has_ended) and until > time.monotonic() else None

    def _note(self, thing: Thing, verdict: Verdict, has_ended: bool = False) -> Verdict:
        until = math.inf if verdict.is_accepted else time.monotonic() + AGAIN_SECONDS
        self._verdicts[thing.uid] = _key(thing, has_ended), verdict, until
        return verdict


def _key(thing: Thing, has_ended: bool) -> Hashable:
    """What a verdict is about; another one is asked for when it changes."""
    return thing.generation, thing.author, thing.adopts, has_ended


def _refused(work: Callable[[], None]) -> Verdict | None:
    """Do it; why not, if so."""
    try:
        work()
    except Refused as refused:
        return _no(refused.code, refused.message)
    except SpecError as error:
        return _no("Invalid", str(error))
    return None


def _no(code: str, message: str) -> Verdict:
    return Verdict(code, message, is_accepted=False)
