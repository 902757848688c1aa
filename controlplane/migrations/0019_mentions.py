"""Sentences written before workloads were told of by id lose the names in them: not every reader may know those."""

import json
import re
from contextlib import contextmanager

from django.db import migrations
from django.db.models import Q

# How the sentences began that named other workloads.
BEGINNINGS = (
    "Is behind ", "Has its place; waits for ", "Would fit, but the room is kept for ",
    "Others could make room for it, but that is kept for ", "Makes room for ", "Moves to another place, ",
    "Gives ",
)  # fmt: skip
ONE = r"[a-z0-9][a-z0-9-]*/[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]|[a-z0-9][a-z0-9-]*/[A-Za-z0-9]"
LISTED = re.compile(rf"(?:{ONE})(?:, (?:{ONE}))*(?: and (?:(?:{ONE})|\d+ more))?")
GIVEN_BACK = re.compile(r"(to team [a-z0-9-]+) for (?!another workload)\S+?(?=[.:](?:\s|$))")
NAMED = ("behind", "reserved_for")  # figures of a reason
AT_ONCE = 1_000


def anonymous(text):
    """A sentence of those without the names; any other text as it is."""
    if not text.startswith(BEGINNINGS):
        return text
    text = GIVEN_BACK.sub(r"\1 for another workload", text)
    return LISTED.sub(lambda found: "other workloads" if " and " in found[0] else "another workload", text)


def deep(value):
    """The same for every text in a JSON value; figures that were names are left out."""
    if isinstance(value, str):
        return anonymous(value)
    if isinstance(value, list):
        return [deep(one) for one in value if not _is_name(one)]
    if isinstance(value, dict):
        return {key: deep(one) for key, one in value.items() if key not in NAMED}
    return value


def _is_name(value):
    """[name of a figure, value], as a stored round has them."""
    return isinstance(value, list) and len(value) == 2 and value[0] in NAMED


def forward(apps, editor):
    """Go through rows, events, notices, what webhooks were sent, and stored rounds."""
    Workload, Event, Notice, Delivery, Cycle = (
        apps.get_model("controlplane", name) for name in ("Workload", "Event", "Notice", "Delivery", "Cycle")
    )
    begins = Q()
    for beginning in BEGINNINGS:
        begins |= Q(message__startswith=beginning)
    for model in (Workload, Notice):
        _each(model, model.objects.filter(begins), lambda row: {"message": anonymous(row.message)}, ("message",))
    with _rewritten(editor):
        found = Event.objects.filter(begins)
        _each(
            Event, found, lambda row: {"message": anonymous(row.message), "data": deep(row.data)}, ("message", "data")
        )
    _each(Delivery, Delivery.objects.exclude(body=""), lambda row: {"body": _body(row.body)}, ("body",))
    _each(Cycle, Cycle.objects.all(), lambda row: {"decisions": deep(row.decisions)}, ("decisions",))


def _body(text):
    try:
        document = json.loads(text)
    except ValueError:
        return text
    return json.dumps(deep(document), ensure_ascii=False, separators=(",", ":"))


def _each(model, found, changed, names):
    last = None
    while True:
        rows = list((found if last is None else found.filter(pk__gt=last)).order_by("pk").only("pk", *names)[:AT_ONCE])
        if not rows:
            return
        last = rows[-1].pk
        news = []
        for row in rows:
            values = changed(row)
            if any(getattr(row, name) != value for name, value in values.items()):
                for name, value in values.items():
                    setattr(row, name, value)
                news.append(row)
        model.objects.bulk_update(news, names, batch_size=100)


@contextmanager
def _rewritten(editor):
    """Without the triggers that keep events as they are: only the table's owner can do that."""
    if editor.connection.vendor != "sqlite":
        editor.execute("ALTER TABLE controlplane_event DISABLE TRIGGER USER")
        yield
        editor.execute("ALTER TABLE controlplane_event ENABLE TRIGGER USER")
        return
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'controlplane_event'")
        triggers = cursor.fetchall()
    for name, _ in triggers:
        editor.execute(f'DROP TRIGGER "{name}"')
    yield
    for _, statement in triggers:
        editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0018_placement_released"),
    ]

    operations = [migrations.RunPython(forward, migrations.RunPython.noop)]
