"""The claims of DynamoML, NEARCHUS and the poster as one HTML page that needs nothing else, made of rows."""

from collections.abc import Iterable, Iterator, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from controlplane.benchmarks.harness import parts
from controlplane.benchmarks.seeds import rows as of
from controlplane.benchmarks.seeds.experiments import EXPERIMENTS
from controlplane.benchmarks.seeds.measure import Found
from controlplane.benchmarks.seeds.mixrows import MAKESPAN
from controlplane.benchmarks.seeds.rows import Kind, Row
from controlplane.benchmarks.seeds.taken import OF

PLAYED = "played"
TIE = "\u00a0"  # a space at which no line ends
YES = {True: "yes", False: "NO", None: ""}
SHORT = (
    "This is the short form: one seed, trainings a tenth as long, few policies. It shows that the report works. "
    "No figure of it answers a claim."
)
INTRODUCTION = (
    "Whether a claim is met is asked of the unfavourable end of the 95 % interval, over the worst set. Bars show means "
    "with their intervals over paired seeds; with one seed there is none. "
)


def page(found: Found) -> str:
    """The whole report: claims, losses, then each experiment."""
    short = f" {SHORT}" if found.form.is_short else ""
    shown = [one for one in EXPERIMENTS if one in found.view.experiments]
    return parts.whole(
        found.view.title,
        f"{found.head}. {INTRODUCTION}{_seeds(found)}{short}",
        _contents(shown),
        _anchored("claims", parts.section("Headline claims", _claims(found))),
        _anchored(
            "losses", parts.section("Losses: what is missed, and where others are level or better", _losses(found))
        ),
        *(_anchored(one, _experiment(found, one)) for one in shown),
    )


def _seeds(found: Found) -> str:
    form = found.form
    last = form.first[-1]
    return f"Seeds {form.first[0]} to {last} of what ours is held against, {form.few} of what stands beside it."


def _contents(shown: Sequence[str]) -> SafeString:
    links = [
        ("claims", "Headline claims"),
        ("losses", "Losses"),
        *((one, f"{one} {EXPERIMENTS[one].title}") for one in shown),
    ]
    return format_html("<nav>{}</nav>", format_html_join(" · ", '<a href="#{}">{}</a>', links))


def _anchored(name: str, part: SafeString) -> SafeString:
    return format_html('<div id="{}">{}</div>', name, part)


def _claims(found: Found) -> SafeString:
    some = [row for row in found.rows if row.kind is Kind.CLAIM]
    lines = [
        (row.policy, row.what.replace(" %", f"{TIE}%"), row.experiment, _shown(row), *_asked(row), row.where, _by(row))
        for row in some
    ]
    head = ("of", "claim", "experiment", "reached", "asked", "met", "answered by", "from")
    return parts.table(head, [*lines, *(_unanswered(name) for name in _unknown(found))], wraps=True)


def _unknown(found: Found) -> Iterator[str]:
    """Experiments of benchmarks of which nothing is known."""
    for experiment in found.view.experiments:
        name = OF.get(experiment)
        if name and not found.taken[name].result.figures:
            yield experiment


def _unanswered(experiment: str) -> tuple[str, ...]:
    return "", EXPERIMENTS[experiment].claim, experiment, "not measured", "", "", f"benchmark {OF[experiment]}", ""


def _losses(found: Found) -> SafeString:
    """First what is missed, then by experiment which baselines are level or better."""
    missed = [
        (row.experiment, f"{row.policy} {row.what}".strip(), row.where, _shown(row), _asked(row)[0], _by(row))
        for row in of.unmet(found.rows)
    ]
    shown = [format_html("<h3>{}</h3>", "Claims and goals that are missed")]
    head = ("experiment", "what", "", "reached", "asked", "from")
    shown.append(parts.table(head, missed, wraps=True) if missed else _none())
    lost = of.level(found.rows)
    for experiment in dict.fromkeys(row.experiment for row in lost):
        lines = [
            (row.policy, row.verdict, row.what, row.where, _shown(row), _by(row))
            for row in lost
            if row.experiment == experiment
        ]
        every = _compared(found.rows, experiment)
        title = f"{experiment} {EXPERIMENTS[experiment].title}: {len(lines)} of {every} comparisons"
        shown.append(format_html("<h3>{}</h3>", title))
        shown.append(parts.table(("policy", "is", "in", "where", "by", "from"), lines, wraps=True))
    return format_html_join("", "{}", ((one,) for one in (*shown, *(() if lost else (_none(),)))))


def _none() -> SafeString:
    return parts.listed(["None."])


def _compared(rows: Iterable[Row], experiment: str) -> int:
    some = (row for row in rows if row.experiment == experiment and row.level is not None)
    return len({(row.what, row.where, row.policy) for row in some})


def _experiment(found: Found, name: str) -> SafeString:
    one = EXPERIMENTS[name]
    mine = [row for row in found.rows if row.experiment == name]
    shown = [format_html("<p>{}</p>", f"{label}: {text}") for label, text in
             (("Claim", one.claim), ("Played", one.played), ("Beside", one.beside))]  # fmt: skip
    taken = found.taken.get(OF.get(name, ""))
    if taken is not None:
        shown.append(format_html("<p>{}</p>", f"Benchmark {OF[name]}: {taken.source}."))
    goals = [(row.what, row.where, _shown(row), *_asked(row)) for row in mine if row.kind is Kind.GOAL]
    shown += [parts.table(("figure", "of", "reached", "goal", "met"), goals)] if goals else []
    shown += [_bars(title, some) for title, some in _charts(mine)]
    shown += [_curves(mine, where) for where in dict.fromkeys(_set(row) for row in mine if row.kind is Kind.CURVE)]
    shown += [_steps(mine)] if any(row.kind is Kind.STEP for row in mine) else []
    if taken is not None and taken.result.notes:
        shown += [format_html("<details><summary>All in words</summary>{}</details>", parts.listed(taken.result.notes))]
    return parts.section(f"{name} {one.title}", *shown)


def _charts(mine: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows that are on one chart: of one kind, about the same, in one place."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in mine:
        if row.kind in (Kind.AGAINST, Kind.SCALE):
            found.setdefault((row.what, row.where), []).append(row)
    yield from ((f"{what}: {where}", some) for (what, where), some in found.items())


def _bars(title: str, some: Sequence[Row]) -> SafeString:
    bars = [(row.policy, row.low, row.value, row.high) for row in some]
    return format_html("<h3>{}</h3>{}", f"{title}, {_by(some[0])}", parts.bars(bars, some[0].unit))


def _curves(mine: Sequence[Row], which: str) -> SafeString:
    """Makespan over ours by how much of the cluster others hold."""
    some = [row for row in mine if row.kind is Kind.CURVE and row.what == MAKESPAN and _set(row) == which]
    places = list(dict.fromkeys(row.where for row in some))
    lines = {
        policy: [next((row.value for row in some if (row.policy, row.where) == (policy, at)), None) for at in places]
        for policy in dict.fromkeys(row.policy for row in some)
    }
    labels = [place.removeprefix(f"{which}, ") for place in places]
    return format_html("<h3>{}</h3>{}", f"{MAKESPAN} over crowding: {which}", parts.lines(labels, lines, "x"))


def _steps(mine: Sequence[Row]) -> SafeString:
    some = [row for row in mine if row.kind is Kind.STEP and row.what != MAKESPAN]
    columns = list(dict.fromkeys((row.where, row.what) for row in some))
    cells = {(row.policy, row.where, row.what): _shown(row) for row in some}
    lines = [
        (policy, *(cells.get((policy, *column), "-") for column in columns))
        for policy in dict.fromkeys(row.policy for row in some)
    ]
    head = ("with", *(f"{what}, {where}" for where, what in columns))
    return format_html(
        "<h3>{}</h3>{}", "What ours consists of, one after the other", parts.table(head, lines, wraps=True)
    )


def _set(row: Row) -> str:
    return row.where.partition(",")[0]


def _asked(row: Row) -> tuple[str, str]:
    """What is to be reached, and whether it is."""
    return _tied(f"{'<=' if row.is_most else '>='} {row.goal:g} {row.unit}".strip()), YES[row.met]


def _shown(row: Row) -> str:
    """The value, which a line may end after, and its interval."""
    return _tied(row.shown).replace(f"{TIE}[", " [")


def _tied(text: str) -> str:
    return text.replace(" ", TIE)


def _by(row: Row) -> str:
    """Where the row is from. What was played for this page stands at its top, and beside an experiment, of which code
    and how old is what is stored.
    """
    if row.source.startswith(PLAYED):
        return f"{row.seeds} seed{'s' * (row.seeds > 1)}"
    stored, _, changed = row.source.partition("; older: ")
    return stored.partition(":")[0] + (f", older{TIE}code" if changed else "")
