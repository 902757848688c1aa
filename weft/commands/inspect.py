"""describe, why, logs: one workload closely."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import jobs, output
from weft.commands import revise
from weft.commands.read import Form
from weft.errors import NotFound
from weft.output import Format
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Explanation, Json, Workload
    from weft.client import Client

Name = Annotated[str, typer.Argument(metavar="NAME", help="team/name, name or uid.")]
Team = Annotated[str, typer.Option(help="Team of the name.")]
OK_OF = {"ok": True, "fails": False}
TAKEN = 3  # of a service, the newest workloads that gave GPUs to it
EVENTS = 15  # the newest, which say how it got where it is


def describe(ctx: typer.Context, name: Name, team: Team = "", form: Form = Format.TABLE) -> None:
    """Show all about a workload: its job file, where it runs, why it waits, and its events."""
    from weft import columns

    session: Session = ctx.obj
    client = session.client
    workload = client.get(name, team=team)
    placement = client.placement(workload.uid)
    events = list(client.events(workload.uid, newest_first=True, limit=EVENTS))[::-1]
    if not form.is_text:
        more = {"placement": placement, "events": [event.document for event in events], "slo": _slo(client, workload)}
        document = {**workload.document, **more}
        output.show([workload], (), form) if form == Format.NAME else output.dump(document, form)
        return
    now = str(client.cluster().get("now") or "")
    service = (
        *_objective(client, workload),
        *_scaling(client, workload),
        *_revision(client, workload),
    )
    output.say(output.pairs([*_facts(workload, now), *service]))
    _section("Spec", _spec(workload.document.get("spec") or {}))
    _section("Placement", _placement(placement))
    _section("Events (times of the cluster's clock)", output.table(events, columns.EVENTS) if events else "none")


def why(
    ctx: typer.Context,
    name: Name,
    search: Annotated[
        bool, typer.Option("--search", help="Search for what would start it also on a large cluster: takes seconds.")
    ] = False,
    team: Team = "",
    form: Form = Format.TABLE,
) -> None:
    """Show why a workload waits, with each check of the scheduler, and what Weft changed of it."""
    session: Session = ctx.obj
    workload = session.client.find(name, team=team)
    explanation = session.client.explanation(workload.uid, search=search)
    if not form.is_text:
        output.show([workload], (), form) if form == Format.NAME else output.dump(explanation.document, form)
        return
    now = str(session.client.cluster().get("now") or "")
    output.say(_headline(workload, explanation, now))
    if of_when := output.as_of(explanation.as_of, now):
        output.say(f"  {of_when}")
    for changed in explanation.changed_by_weft:
        since = f", since {changed['since']}" if changed.get("since") else ""
        output.say(f"  Changed by Weft{since}: {output.clean(changed['message'])}")
        output.say(f"    {output.clean(changed['undo'])}")
    for check in explanation.checks:
        name_and_why = f"{check.get('name'):<10}  {output.clean(check.get('message') or '')}"
        output.say(f"  {output.mark(OK_OF.get(str(check.get('status'))))} {name_and_why}".rstrip())
    if explanation.evicts:
        output.say(f"  Evicts {', '.join(map(output.leaver, explanation.evicts))}.")
    if explanation.expected_start and not explanation.will_start:
        output.say(f"  {output.expected(explanation.expected_start)}")
    if explanation.will_start:
        output.say("  Starts in the next round, if nothing else changes.")
    output.say_suggestions(explanation.suggestions, explanation.no_suggestions, workload.path)


def logs(
    ctx: typer.Context,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the workload ends.")] = False,
    tail: Annotated[int, typer.Option(help="How many of the last lines, at most 10000.")] = 100,
    since: Annotated[str, typer.Option(help="Only lines newer than this, such as 10m (cluster's clock).")] = "",
    rank: Annotated[int | None, typer.Option(help="Only this worker.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print the time of each line.")] = False,
    team: Team = "",
) -> None:
    """Print a workload's log."""
    from weft.follow import log_lines

    session: Session = ctx.obj
    client = session.client
    workload = client.find(name, team=team)
    start = float(client.cluster()["seconds"]) - jobs.seconds(since) if since else None
    if follow:
        lines = log_lines(client, workload.uid, tail=tail, since=start, rank=rank, notice=output.note)
    else:
        lines = iter(client.logs(workload.uid, tail=tail, since=start, rank=rank).lines)
    shows_rank = rank is None and int(workload.workers.get("count", 1)) > 1
    for line in lines:
        text = f"[{line.rank}] {line.text}" if shows_rank else line.text
        output.say(output.log_text(f"{output.clock(line.at)} {text}" if timestamps else text))


def _section(title: str, body: str) -> None:
    output.say(f"\n{title}:\n" + "\n".join(f"  {line}" for line in body.splitlines()))


def _headline(workload: "Workload", explanation: "Explanation", now: str) -> str:
    state = workload.phase + (f" ({explanation.reason})" if explanation.reason else "")
    for_long = f", for {output.since(explanation.since, now)}" if explanation.since and now else ""
    place = f", position {explanation.position} of {explanation.in_queue} in the queue" if explanation.position else ""
    line = f"{workload.path} is {state}{for_long}{place}."
    return f"{line}\n  {output.clean(explanation.message)}" if explanation.message else line


def _objective(client: "Client", workload: "Workload") -> list[tuple[str, str]]:
    """How a service stands against its objective; nothing for other workloads, and without one."""
    slo = _slo(client, workload)
    if slo is None:
        return []
    left, burn = slo.get("budget_left"), slo.get("burn_rate")
    known = [
        _first_token(slo) if slo.get("p95_of") == "first_token" else "",
        "" if left is None else f"{left:.0%} of the error budget left",
        "" if burn is None else f"burn rate of the last hour {burn:.1f}x (1x = on target)",
        output.clean(slo.get("unknown_why") or ""),
    ]
    told = ", ".join(filter(None, known))
    return [("Objective", f"{slo['standing']}: {told}" if told else slo["standing"])]


def _first_token(slo: "Json") -> str:
    return f"{100 * slo['availability_target']:g}% of first tokens within {1000 * slo['p95_target_seconds']:g} ms"


def _revision(client: "Client", workload: "Workload") -> list[tuple[str, str]]:
    """Which revision a service is of, and how far it is brought in; nothing for other workloads."""
    if workload.type != "inference":
        return []
    try:
        found = client.revisions(workload.uid)
    except NotFound:  # a server of before revisions
        return []
    return [("Revision", revise.progress(found) or str(found["revision"]))]


def _scaling(client: "Client", workload: "Workload") -> list[tuple[str, str]]:
    """What a service tells that has standby, scales to zero, by Kubernetes, or by its limit first; else nothing."""
    spec = workload.document.get("spec") or {}
    share = (spec.get("resources") or {}).get("gpu_share") or {}
    may_change = spec.get("scaling") == "native" or share.get("max_limit") or spec.get("standby")
    tells = workload.workers.get("min") == 0 or may_change
    if workload.type != "inference" or workload.has_ended or not tells:
        return []
    told = client.autoscaling(workload.uid)  # a server of before tells less
    sleep, native, limit = told.get("sleep"), told.get("native"), told.get("raised_limit")
    return [
        *(_sleep(sleep) if sleep else ()),
        *(_native(native) if native else ()),
        *(_standby(told["standby"]) if told.get("standby") else ()),
        *([("Limit", str(limit["sentence"]))] if limit else ()),
        *(("Took GPUs of", _took(one)) for one in told.get("taken", ())[:TAKEN]),
    ]


def _took(one: "Json") -> str:
    """`cv/resnet: 1 worker left 1 GPU that was lent to it; about 0.2 GPU-seconds lost.`"""
    who = f"{one['team']}/{one['name']}" if one["name"] else f"a workload of team {one['team']}"
    price = (one["reclaim_price"] or {}).get("sentence", "")
    return f"{output.clean(who)}, {output.clock(one['at'])} UTC{f': {output.clean(price)}' if price else ''}"


def _standby(told: "Json") -> list[tuple[str, str]]:
    """How many replicas are on standby, how soon they answer, and how many of their GPUs are lent."""
    slow = told.get("on_host", 0)
    wakes = []
    if "wake_seconds" in told:  # a server of before does not tell
        near, far = (output.span(told[f"{name}wake_seconds"]) for name in ("", "host_"))
        wakes += [f"{told['asleep'] - slow} answer in {near}"] if told["asleep"] > slow else []
        wakes += [f"{slow} in {far}, from host memory"] if slow else []
    state = f"{told['serving']} serve, {told['asleep']} on standby"
    soon = f" ({', '.join(wakes)})" if wakes else ""
    return [("Standby", f"{state}{soon}, {told['lent']} of their GPUs lent")]


def _sleep(sleep: "Json") -> list[tuple[str, str]]:
    """Whether it sleeps now, and what a request then waits."""
    cold = sleep["cold_start_seconds"]
    waits = "" if cold is None else f"; the next request waits about {output.span(cold)}"
    idle = f"{output.span(sleep['after_seconds'])} without a request"
    state = f"asleep, after {idle}" if sleep["is_asleep"] else f"after {idle}"
    return [("Scale to zero", f"{state}{waits}")]


def _native(told: "Json") -> list[tuple[str, str]]:
    """How Kubernetes' own autoscaler of it stands."""
    current, desired = (told[f"{name}_replicas"] for name in ("current", "desired"))
    counts = "" if desired is None else f": {current} replicas now, {desired} wanted"
    rows = [("Scaled by", f"Kubernetes' HPA{counts}")]
    if told["requests_in_flight"] is not None and told["target_per_replica"] is not None:
        load = f"{told['requests_in_flight']:.1f} in flight, {told['target_per_replica']:.1f} are to be at each replica"
        rows.append(("Requests", load))
    for one in told["conditions"]:
        if one["status"] != ("False" if one["type"] == "ScalingLimited" else "True"):
            message = f": {output.clean(one['message'])}" if one["message"] else ""
            rows.append((one["type"], f"{one['status']}: {output.clean(one['reason'])}{message}"))
    if told["other_owner"]:
        rows.append(("Two owners", f"{output.clean(told['other_owner'])} writes the number of replicas too"))
    return rows


def _slo(client: "Client", workload: "Workload") -> "Json | None":
    if workload.type != "inference" or workload.has_ended:
        return None
    try:
        return client.slo(workload.uid)
    except NotFound:
        return None


def _facts(workload: "Workload", now: str) -> list[tuple[str, str]]:
    workers, code = workload.workers, workload.exit_code
    document = workload.document
    return [
        ("Name", workload.path),
        ("UID", workload.uid),
        ("Type", workload.type),
        ("Phase", workload.phase),
        ("Reason", f"{workload.reason}: {workload.message}" if workload.reason else workload.message),
        ("Position in the queue", str(workload.position or "")),
        ("Expected start", _expected(document.get("expected_start"))),
        ("Priority", f"{workload.priority_class} ({document.get('priority')})"),
        ("Preemptible", "yes" if document.get("preemptible") else "no"),
        ("Workers", f"{workers.get('running')}/{workers.get('count')} running (min {workers.get('min')}, "
         f"max {workers.get('max')})"),
        *((role["name"].capitalize(), f"{role['running']}/{role['count']} running") for role in workload.roles),
        ("Each worker", output.size(workload.resources)),
        ("Resize", _resize(workload)),
        ("GPUs", output.gpus(workload.resources.get("milli_gpu"))),
        ("Starts after", _starts_after(workload)),
        ("Progress", f"{workload.progress:.0%} is saved" if workload.progress is not None else ""),
        ("Attempt", str(workload.attempt)),
        ("Exit code", "" if code is None else str(code)),
        ("Address", workload.address or ""),
        ("Submitted by", workload.created_by),
        ("Changed by", workload.managed_by if workload.managed_by not in ("", "weft") else ""),
        ("Submitted", _moment(workload.submitted_at, now)),
        ("Started", _moment(workload.started_at, now)),
        ("Ended", _moment(workload.ended_at, now)),
    ]  # fmt: skip


def _resize(workload: "Workload") -> str:
    resize = workload.resize
    if not resize:
        return ""
    what = "back to" if resize.get("is_put_back") else "to"
    return f"{what} {output.size(resize)}" + (f" ({output.clean(resize['message'])})" if resize.get("message") else "")


def _starts_after(workload: "Workload") -> str:
    rules = {one["name"]: one["when"] for one in workload.starts_after}
    named = (f"{name} ({rules[name]})" if rules.get(name) else name for name in workload.after)
    return ", ".join(named) + (f" (not met: {', '.join(workload.unmet)})" if workload.unmet else "")


def _expected(start: "Json | None") -> str:
    if not start:
        return ""
    return "{} (80 % interval: {} to {})".format(*(output.clock(start[name]) for name in ("median", "low", "high")))


def _moment(iso: str | None, now: str) -> str:
    return f"{output.clock(iso)} ({output.since(iso, now)} ago)" if iso else ""


def _spec(spec: "Json") -> str:
    import yaml

    return str(yaml.safe_dump(dict(spec), sort_keys=False, allow_unicode=True)).rstrip()


def _placement(placement: "Json") -> str:
    workers: list[dict[str, Any]] = list(placement.get("workers") or [])
    if not workers:
        return "none"
    from weft import columns

    return output.table(workers, columns.PLACEMENT)
