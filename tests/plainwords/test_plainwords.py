"""Nothing that a person reads uses a retired term: sentences of the code, help, the REST schema, documents, pages."""

from collections.abc import Callable, Iterator

import pytest

from controlplane.models import Workload
from tests.frontend.conftest import Visit, visit, world
from tests.frontend.factory import World
from tests.frontend.test_pages import PAGES, TABS
from tests.plainwords import sources
from tests.plainwords.terms import Term, Text, retired, uses

__all__ = ["visit", "world"]

SOURCES: dict[str, tuple[Callable[[], Iterator[Text]], int]] = {  # with the least number of texts, so none is empty
    "sentences": (sources.sentences, 2000),
    "manage.py": (sources.management, 10),
    "weft": (sources.command_line, 30),
    "schema": (sources.schema, 500),
    "documents": (sources.documents, 800),
    "templates": (sources.templates, 60),
}


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_that_is_read_uses_a_retired_term(source: str) -> None:
    texts, least = SOURCES[source]
    found = list(texts())
    assert len(found) >= least
    assert list(uses(found, retired())) == []


def test_no_page_uses_a_retired_term(world: World, visit: Visit) -> None:
    client = visit("admin")
    rows = [Workload.objects.filter(kind=kind).latest("seq").pk for kind in ("training", "notebook", "inference")]
    rows += [Workload.objects.filter(phase=phase).latest("seq").pk for phase in ("Queued", "Running")]
    pages = [
        *PAGES,
        "/submit/",
        "/teams/nlp/budgets/",
        "/teams/nlp/people/",
        *(f"/workloads/{row}/?tab={tab}" for row in rows for tab in TABS),
    ]
    answers = [(page, client.get(page)) for page in pages]
    assert [page for page, answer in answers if answer.status_code != 200] == []
    texts = [Text(page, sources.visible(answer.content.decode())) for page, answer in answers]
    assert all(len(one.text) > 100 for one in texts)
    assert list(uses(texts, retired())) == []


@pytest.mark.parametrize("term", retired(), ids=lambda term: term.example)
def test_a_use_of_each_retired_term_is_found(term: Term) -> None:
    planted = Text("planted", f"The first sentence.\n{term.example} And\n  the last.")
    (told,) = uses([Text("plain", "Nothing to see."), planted], [term])
    assert told.startswith("planted")
    assert term.instead in told
    assert list(uses([Text("instead", term.instead)], [term])) == []


def test_literals_are_read_as_sentences_and_docstrings_are_not() -> None:
    code = 'def f(n):\n    """It is not read here."""\n    say(f"Nobody lends {n:g} GPUs", "too short")\n'
    assert list(sources.literals(code)) == [(3, "Nobody lends {} GPUs")]
    assert sources.visible('<p title="a b">x<script>y</script></p>') == "a b x"
