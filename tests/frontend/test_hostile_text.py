"""Hostile text in every field that a user or a cluster can fill, on every page: it stays text."""

from collections.abc import Iterator
from html import escape

import pytest
from django.http import HttpResponse
from django.test import Client

from controlplane import apps
from controlplane.cluster.port import LogLine
from controlplane.models import User
from controlplane.runtime import logs
from tests.frontend.conftest import Visit
from tests.hostile import database, pages, strings
from tests.hostile.reader import escaped
from tests.hostile.strings import MARK

TURNS = (0, 19)  # in each the strings stand in other columns and fields


@pytest.fixture
def printed() -> Iterator[None]:
    """Pods that print every string."""
    logs.connect(lambda *_: tuple(LogLine(1.0, rank, text) for rank, text in enumerate(strings.ALL)))
    yield
    logs.connect(apps._read_logs)


def shown(answer: HttpResponse) -> str:
    """The answer if a browser would read it as a page."""
    is_page = answer["Content-Type"].startswith(("text/html", "image/svg+xml")) and not answer.streaming
    return answer.content.decode() if is_page else ""


@pytest.mark.slow
@pytest.mark.parametrize("turn", TURNS)
def test_what_others_write_stays_text_on_every_page(db: None, visit: Visit, printed: None, turn: int) -> None:
    database.fill()
    assert database.poison(turn) > 1000
    client, seen, wrong = visit(database.ADMIN), set(), {}
    todo = [*pages.addresses(), *pages.console(), *pages.asked(turn)]
    for address in todo:
        answer = client.get(address)
        assert answer.status_code in (200, 302, 400, 403, 404), (address, answer.status_code)
        text = shown(answer)
        seen.update([address] if MARK in text else [])
        wrong.update({address: found} if (found := escaped(text)) else {})
    assert not wrong
    assert len(seen) > 0.6 * len(todo)  # what is looked at has the strings in it


@pytest.mark.parametrize("turn", TURNS)
def test_what_is_typed_stays_text_where_a_form_comes_back(db: None, turn: int) -> None:
    database.fill()
    seen, wrong = set(), {}
    for path, form in pages.typed(turn):
        client = Client()
        if path != "/login/":
            client.force_login(User.objects.get(username=database.ADMIN))
        answer = client.post(path, form, follow=True)
        assert answer.status_code in (200, 400, 403, 404, 409, 422, 429), (path, answer.status_code)
        text = shown(answer)
        seen.update([path] if MARK in text else [])
        wrong.update({path: found} if (found := escaped(text)) else {})
    assert not wrong
    assert len(seen) > 0.6 * len(pages.FORMS)


@pytest.mark.parametrize("text", strings.MARKUP)
def test_the_reader_finds_what_is_not_escaped(text: str) -> None:
    places = ("<p>{}</p>", '<input value="{}">', "<input value='{}'>", "<a title={}>x</a>", "<textarea>{}</textarea>",
              "<title>{}</title>", "<script>x = '{}'</script>", "<!-- {} -->")  # fmt: skip
    assert any(escaped(f"<body>{place.format(text)}</body>") for place in places)
    assert not escaped(f'<p title="{escape(text)}">{escape(text)}</p><textarea>{escape(text)}</textarea>')


@pytest.mark.parametrize("text", strings.ADDRESSES)
def test_the_reader_finds_addresses_that_run_or_lead_away(text: str) -> None:
    assert escaped(f'<a href="{escape(text)}">x</a>') or escaped(f"<a hx-vals='{escape(text)}'>x</a>")
    assert not escaped(f'<a href="/workloads/?q={escape(text)}">{escape(text)}</a>')
