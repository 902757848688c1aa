"""`authorization`: every address x method x role x {own team, other team, no such}, against the written matrix.

The addresses come from the URLconf, what is right from controlplane/security/authorization.txt. Each request is taken
back.
"""

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import transaction
from django.http import HttpResponse

from controlplane.benchmarks.harness import processes, tenants
from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.harness.tenants import BLUE, MARKS, NO_ROW, NO_WORKLOAD, NONE, RED, Person, Tenants, job
from controlplane.queries.accounts import access
from controlplane.security import authorization, limits
from controlplane.security.authorization import METHODS, Route, Rule

OWN, OTHER, NO_SUCH = "own", "other team's", "no such"
ALLOWED, DENIED, MISSING, SIGN_IN, NO_METHOD, ERROR = "allowed", "denied", "missing", "sign-in", "no method", "error"
SHOWN = 20  # of what is wrong
OUTSIDERS = ("/login/?next=", "/accounts/login/?next=", "/admin/login/?next=")  # where who is not signed in is sent
VERBS = tuple(verb.value for verb in access.Verb)
OWNERS = ("member", "other team's member")  # whose workloads and tokens the matrix asks about
ALIASES = {"trainings": "training", "notebooks": "notebook", "inferences": "inference"}
# Where this small installation has nothing to show, or the action is not named: missing for who may ask, too.
SOMETIMES = (
    "api/v1/group-mappings/<int:pk>",
    "api/v1/service-accounts/<int:pk>/tokens/<int:number>",
    "decisions/rounds/<int:number_>/",
    "nodes/<str:name>/<slug:verb>",
    "notices/unsubscribe/<str:token>",
    "queue/apply",
    "queue/try",
    "settings/webhooks/<uuid:uid>/<slug:verb>",
    "sso/<slug:provider_id>/callback/",
    "sso/<slug:provider_id>/login/",
    "teams/<str:team>/people/<str:username>/remove",
    "teams/<str:team>/service-accounts/<int:pk>/tokens/<int:number>/revoke",
    "api/v1/teams/<slug:team>/members/<str:username>",
    "two-steps/",
    "two-steps/codes/",
    "two-steps/off/",
    "what-if/<int:number>/chart",
    "workloads/<uuid:uid>/measured/<slug:name>",
    "workloads/bulk",
)
NAMED_IN_BODY = ("api/v1/workloads:diff", "api/v1/templates")  # a team that there is not is a fault of the body
# A page for who is signed in already leads on, whatever the method; so does signing out for who may not be there.
LEADS_ON = {"login/": NO_METHOD, "admin/logout/": ALLOWED}
WRONG_PASSWORD = ("api/v1/login",)  # anybody may try
CHANGED = {"labels": {"checked": "yes"}}
# What is sent where an empty body would be refused before anybody asks who sends it. TEAM and NAME are filled in.
BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "api/v1/login"): {"username": "nobody-7", "password": "wrong"},
    ("POST", "api/v1/tokens"): {"name": "ci"},
    ("POST", "api/v1/workloads"): "JOB",
    ("POST", "api/v1/workloads:act"): "ALL",
    ("POST", "api/v1/workloads:apply"): "JOB",
    ("POST", "api/v1/workloads:preview"): "JOB",
    ("POST", "api/v1/workloads:batch"): "JOBS",
    ("POST", "api/v1/workloads:diff"): "JOB",
    ("POST", "api/v1/trainings"): "JOB",
    ("POST", "api/v1/notebooks"): "JOB",
    ("POST", "api/v1/inferences"): "JOB",
    ("POST", "api/v1/workloads/<uuid:uid>/scale"): {"count": 1},
    ("POST", "api/v1/workloads/<uuid:uid>/priority"): {"priority_class": "normal"},
    **{("PATCH", f"api/v1/{kinds}/<uuid:uid>"): CHANGED for kinds in (*ALIASES, "workloads")},
    ("POST", "api/v1/templates"): "TEMPLATE",
    ("PUT", "api/v1/templates/<int:number>"): {"job": {"type": "training", "image": "example/app:2"}},
    ("POST", "api/v1/views"): {"name": "mine", "query": "phase=waiting"},
    ("POST", "api/v1/service-accounts"): "ACCOUNT",
    ("POST", "api/v1/notification-rules"): "RULE",
    ("POST", "api/v1/notification-subscriptions"): "RULE",
    ("POST", "api/v1/webhooks"): "HOOK",
    ("POST", "settings/webhooks/"): "HOOK",
    ("PATCH", "api/v1/webhooks/<uuid:webhook>"): {"name": "newer"},
    ("POST", "workloads/bulk"): {"verb": "stop"},
    ("POST", "workloads/views"): {"name": "mine", "query": "phase=waiting"},
    ("POST", "templates/save"): "FORM",
    ("POST", "api/v1/workloads/<uuid:uid>/remedy"): {"kind": "cpu", "after": 500},
    ("POST", "api/v1/workloads/<uuid:uid>/suggestion"): {"kind": "cpu", "after": 500},
    ("PUT", "api/v1/teams/<slug:team>/quotas/<slug:pool>"): {"nominal_milli": 4000},
    ("PATCH", "api/v1/teams/<slug:team>/quotas/<slug:pool>"): {"nominal_milli": 4000},
    ("PUT", "api/v1/teams/<slug:team>/budgets/<slug:period>"): {"gpu_hours": 10, "is_hard": True},
    ("POST", "teams/<str:team>/budgets/"): {"period": "month", "gpu_hours": "9", "is_hard": "soft", "version": "1"},
    ("POST", "submit/"): "FORM",
    ("POST", "submit/preview"): "FORM",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One question to the matrix."""

    rule: Rule | None
    route: Route
    method: str
    person: Person
    target: str

    def __str__(self) -> str:
        return f"{self.method} {self.route.address} as {self.person.role}, {self.target}"

    @property
    def team(self) -> str:
        """The team that is asked about."""
        home = self.person.team or RED
        away = RED if home == BLUE else BLUE
        return {OWN: home, OTHER: away, NO_SUCH: NONE}[self.target]


def run(options: Options, progress: Progress) -> Result:
    """Ask in a process with a database of its own. Raises BenchmarkError."""
    with tempfile.TemporaryDirectory(prefix="weft-authorization-") as name:
        progress(0.1, "asking every address as each role")
        found = processes.run(processes.environment(Path(name)), "benchmark_process", "authorization")
    wrong = [f"not as the matrix says: {line}" for line in found["wrong"][:SHOWN]]
    leaks = [f"LEAK: {line}" for line in found["leaks"][:SHOWN]]
    covered = 100 * (found["cells"] - len(found["wrong"])) / max(1, found["cells"])
    return Result(
        (
            Figure("authorization.cells", found["cells"], ""),
            Figure("authorization.covered_percent", round(covered, 2), "%", 100, higher_is_better=True),
            Figure("authorization.leaks", len(found["leaks"]), "", 0),
        ),
        (f"{found['routes']} addresses; {', '.join(found['roles'])}", *leaks, *wrong),
    )


def attempted(_: Mapping[str, Any]) -> dict[str, Any]:
    """The process's part."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # SSE answers are made, and never read
    return ask_all(tenants.fill())


@contextmanager
def _silent() -> Iterator[None]:
    """Without logs: each refusal is a line, with its trace."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@_silent()
def ask_all(made: Tenants) -> dict[str, Any]:
    """Every cell settled: how many, what was not as the matrix says, and what leaked."""
    wrong: list[str] = []
    leaks: list[str] = []
    unseen: dict[tuple[str, str, str], set[int]] = {}
    asked = Asked(made)
    for cell in cells(made):
        limits.of_process().forget()
        answer = asked.answer(cell)
        if answer is None:
            continue
        expected, found = expectation(cell), meaning(answer)
        if not _is_right(expected, found, cell):
            line = f"{cell}: {answer.status_code} is {found}, not {expected}"
            (leaks if found == ALLOWED and answer.status_code < 400 and expected != NO_METHOD else wrong).append(line)
        if expected == MISSING and cell.person.user is not None:
            unseen.setdefault((cell.route.address, cell.method, cell.person.role), set()).add(answer.status_code)
        mark = _stranger(cell)
        shows_faults = cell.rule is not None and cell.rule.who == "signed-in"
        if mark and (expected != ALLOWED or shows_faults) and mark.encode() in _body(answer):
            leaks.append(f"{cell}: the answer names {mark}")
        if b"[[w:" in _body(answer):
            leaks.append(f"{cell}: the answer has a mention of a workload that was not filled in")
        if cell.rule and (cell.rule.of == "-" or cell.target == OWN) and _strangers_mark(cell) in _body(answer):
            leaks.append(f"{cell}: the answer names what is another team's")
    # What is another team's and what there is not must look the same.
    leaks += [f"{key}: {sorted(statuses)} tell what exists" for key, statuses in unseen.items() if len(statuses) > 1]
    roles = [person.role for person in made.people]
    routes = len(list(authorization.routes()))
    return {"cells": asked.cells, "wrong": wrong, "leaks": leaks, "routes": routes, "roles": roles}


def cells(made: Tenants) -> Iterator[Cell]:
    """All of them; an address that is about no team has one target."""
    known = authorization.rules()
    for route in authorization.routes():
        about = [rule for rule in known if rule.is_about(route.address)]
        for method in METHODS:
            rule = next((one for one in about if method in one.methods), None)
            targets = (OWN, OTHER, NO_SUCH) if any(one.of != "-" for one in about) else (OWN,)
            for person in made.people:
                for target in targets:
                    yield Cell(rule, route, method, person, target)


def expectation(cell: Cell) -> str:
    """What the matrix says."""
    rule, person = cell.rule, cell.person
    if rule is None:
        return NO_METHOD
    if rule.who == "anyone":
        return ALLOWED
    if person.user is None:
        return SIGN_IN
    if rule.who in VERBS:
        return _by_role(cell, rule)
    match rule.who:
        case "signed-in":
            return ALLOWED
        case "self":
            return ALLOWED if cell.target == OWN and person.role in OWNERS else MISSING
        case "admins":
            return ALLOWED if access.team_names(person.user, access.Verb.MANAGE) else DENIED
        case _:
            return _found(cell, rule) if person.user.is_superuser else DENIED


def _by_role(cell: Cell, rule: Rule) -> str:
    """What a verb in a team needs."""
    user = cell.person.user
    if user is None:
        return SIGN_IN
    if user.is_superuser:
        return _found(cell, rule)
    if rule.of == "-":  # in whichever team
        return ALLOWED if access.team_names(user, access.Verb(rule.who)) else DENIED
    role = access.roles(user).get(cell.team)
    if role is None:
        return MISSING
    # The workloads of the matrix are a member's, who may change them as a team admin may.
    verb = access.Verb.ACT if rule.who == access.Verb.CHANGE and cell.person.role in OWNERS else rule.who
    return ALLOWED if access.allows(role, verb) else DENIED


def _found(cell: Cell, rule: Rule) -> str:
    return MISSING if rule.of != "-" and cell.target == NO_SUCH else ALLOWED


def _is_right(expected: str, found: str, cell: Cell) -> bool:
    """Whether an answer keeps to the matrix; what is denied may as well be missing."""
    refused = {DENIED, MISSING}
    if found == LEADS_ON.get(cell.route.address):
        return True
    if expected == MISSING and found == ALLOWED and cell.route.address in NAMED_IN_BODY:
        return cell.target == NO_SUCH and cell.person.user is not None and cell.person.user.is_superuser
    if expected == NO_METHOD:
        return found in {NO_METHOD, SIGN_IN, *refused}
    if cell.rule and cell.rule.who == "console":  # its sign-in is the pages', which answers 403 to who is signed in
        return found not in {SIGN_IN, ERROR} if expected == ALLOWED else found in {expected, SIGN_IN, *refused}
    if expected in refused:
        return found in refused
    may_be_missing = cell.route.address in SOMETIMES or cell.route.address in WRONG_PASSWORD
    return found == expected or (expected == ALLOWED and may_be_missing and found in {MISSING, SIGN_IN})


class Asked:
    """Asks cells of the matrix, each in a transaction that is taken back; `cells` counts those that are settled."""

    def __init__(self, made: Tenants) -> None:
        self.cells = 0
        self._made = made
        self._without: set[tuple[str, str, str]] = set()  # address, method and role

    def answer(self, cell: Cell) -> HttpResponse | None:
        """The answer; None where one of the same role about another target has settled it.

        That is a method that the address does not have (405): it is refused before anybody looks at a target.
        """
        self.cells += 1
        question = (cell.route.address, cell.method, cell.person.role)
        if question in self._without:
            return None
        path, body = path_of(cell, self._made), sent(cell, self._made)
        with transaction.atomic():
            answer = cell.person.ask(cell.method, path, body)
            transaction.set_rollback(True)
        if cell.person.user is not None and "logout" in path:
            cell.person.client.force_login(cell.person.user)
        if cell.rule is None and answer.status_code == 405:
            self._without.add(question)
        return answer


def meaning(answer: HttpResponse) -> str:
    """What an answer says of who asked: 400, 409, 422 and the like come after that."""
    status = answer.status_code
    if status >= 500:
        return ERROR
    if status == 401 or (300 <= status < 400 and answer.headers.get("Location", "").startswith(OUTSIDERS)):
        return SIGN_IN
    return {403: DENIED, 404: MISSING, 405: NO_METHOD}.get(status, ALLOWED)


def _body(answer: HttpResponse) -> bytes:
    return b"" if answer.streaming else answer.content


def _stranger(cell: Cell) -> str:
    """The mark that must not be in the answer; "" for who may see everything."""
    if cell.person.user is not None and cell.person.user.is_superuser:
        return ""
    return MARKS.get(cell.team, "") if cell.target == OTHER or cell.person.user is None else ""


def _strangers_mark(cell: Cell) -> bytes:
    if cell.person.user is None:
        return b"-7f3a"  # part of every mark of team red
    if cell.person.user.is_superuser:
        return b"\x00"  # in no answer
    return MARKS[RED if cell.person.team == BLUE else BLUE].encode()


def path_of(cell: Cell, made: Tenants) -> str:
    """The address with its parameters filled in for the team that is asked about."""
    workload = made.workloads.get((cell.team, _kind(cell.route.address)))
    hook = str(made.hooks.get(cell.team, NO_WORKLOAD))
    about_hook = cell.route.address.startswith("settings/webhooks/")
    values = {
        "<uuid:uid>": hook if about_hook else str(workload.pk if workload else NO_WORKLOAD),
        "<uuid:webhook>": hook,
        "<uuid:delivery>": str(made.deliveries.get(cell.team, NO_WORKLOAD)),
        "<int:subscription>": str(made.rules.get(cell.team, NO_ROW)),
        "<str:token>": "no-token",
        "<slug:verb>": "stop",
        "<slug:pool>": "main",
        "<str:pool>": "main",
        "<int:number_>": "1",
        "<slug:period>": "month",
        "<slug:team>": cell.team,
        "<str:team>": cell.team,
        "<int:pk>": str(_key(cell, made)),
        "<str:username>": f"{MARKS.get(cell.team, 'no')}-viewer",
        "<slug:provider_id>": "none",
        "<int:number>": str(_number(cell, made)),
        "<path:object_id>": "1",
        "<path:content_type_id>": "1",
    }  # fmt: skip
    mark = MARKS.get(cell.team, "no")
    names = {"api/v1/teams/": cell.team, "workloads/": f"{mark}-t", "notebooks/": f"{mark}-n", "parts/": "tiles"}
    names["api/v1/node-pools/"] = "main"
    name = next((value for before, value in names.items() if cell.route.address.startswith(before)), "a")
    path = cell.route.address
    for parameter, value in {**values, **dict.fromkeys(("<slug:name>", "<str:name>", "<anything:name>"), name)}.items():
        path = path.replace(parameter, value)
    return "/" + path.lstrip("^/").rstrip("$")


def _kind(address: str) -> str:
    """The type of the workload that an address is asked about."""
    if address.endswith("/latency") or address.startswith("services/"):
        return "inference"
    if address.startswith("notebooks/"):
        return "notebook"
    return next((kind for kinds, kind in ALIASES.items() if address.startswith(f"api/v1/{kinds}")), "training")


def _key(cell: Cell, made: Tenants) -> int:
    of = made.accounts if "service-accounts" in cell.route.address else made.tokens
    return NO_ROW if "group-mappings" in cell.route.address else of.get(cell.team, NO_ROW)


def _number(cell: Cell, made: Tenants) -> int:
    address = cell.route.address
    if "templates" in address:
        return made.templates.get(cell.team, NO_ROW)
    if "views" in address:
        return made.views.get(cell.team, NO_ROW)
    return made.simulation if "simulation" in address or "what-if" in address else 0


def sent(cell: Cell, made: Tenants) -> Any:
    """A right body, or None where none is needed to find out who may ask."""
    body = BODIES.get((cell.method, cell.route.address))
    if not isinstance(body, str):
        return body
    new = job(cell.team, "asked", _kind(cell.route.address))
    template = {"template_for": cell.team, "template_name": "asked"}
    return {
        "JOB": new,
        "JOBS": [new],
        # Of either team: what is not the asker's must not be in the answer.
        "ALL": {"verb": "stop", "uids": [str(one.pk) for one in made.workloads.values()]},
        "FORM": {"type": "training", "name": "asked", "team": cell.team, "image": "example/app:1", **template},
        "ACCOUNT": {"team": cell.team, "name": "asked", "role": "member"},
        "RULE": {"matter": "ended", "team": cell.team},
        "HOOK": {"team": cell.team, "name": "new", "url": "https://hooks.example.test/", "matters": ["ended"]},
        "TEMPLATE": {"name": "asked", "team": cell.team, "job": {"type": "training", "image": "example/app:1"}},
    }[body]
