"""`parsers`: the processor time that the slowest text costs, of 256 KiB, and how it grows with its size.

Every regular expression that text from outside reaches (patterns.txt) gets the kinds of text that it is slowest on, and
so do the readers of whole bodies, forms and addresses. 256 KiB is the largest body of the API, and eight times what all
headers and the address may have together: what Python and Django read of headers alone gets no more than the server's
protocol lets through to them (controlplane/security/bounds.py).
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product

from django.http import HttpRequest, QueryDict
from django.http.cookie import parse_cookie
from django.urls import Resolver404, resolve
from django.utils.http import parse_header_parameters, url_has_allowed_host_and_scheme
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.reliability import patterns, worstkinds
from controlplane.benchmarks.reliability.worstkinds import Kind
from controlplane.runtime.logformat import hide_secrets
from controlplane.security import bounds

SMALL, LARGE = 64 * 1024, 256 * 1024
WORST_MS, GROWTH = 50.0, 5.0
TOLD = 3  # the slowest, in the notes
LETTERS = '"\\[]{},:0a=;&/%. '


Work = tuple[Callable[[str], object], Callable[[], Iterator[Kind]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What the slowest kind of text costs one pattern or reader."""

    name: str
    kind: Kind
    milliseconds: float  # of 256 KiB
    growth: float  # from 64 KiB


def run(options: Options, progress: Progress) -> Result:
    """Measure each pattern and each reader."""
    works = {**_patterns(), **{name: (work, _texts) for name, work in _readers().items()}}
    found = []
    for number, (name, (work, kinds)) in enumerate(works.items()):
        progress(number / len(works), name)
        found += [_measured(name, work, kind) for kind in worstkinds.slowest(work, kinds())]
    found.sort(key=lambda one: -one.milliseconds)
    grown = max(found, key=lambda one: one.growth)
    return Result(
        (
            Figure("parsers.worst_ms", round(found[0].milliseconds, 2), "ms", WORST_MS),
            Figure("parsers.most_growth", round(grown.growth, 2), "x", GROWTH),
            Figure("parsers.measured", len(works), ""),
        ),
        (
            *(f"{one.milliseconds:.1f} ms: {one.name}, {one.kind}" for one in found[:TOLD]),
            f"growth from 64 to 256 KiB: {grown.growth:.2f} x: {grown.name}, {grown.kind}",
        ),
    )


def _measured(name: str, work: Callable[[str], object], kind: Kind) -> Measured:
    growth = worstkinds.growth(work, kind, SMALL, LARGE)
    if growth == float("inf"):  # the larger sizes would take minutes
        return Measured(name, kind, growth, growth)
    return Measured(name, kind, worstkinds.seconds(work, kind.of(LARGE), worstkinds.RUNS) * 1000, growth)


def _patterns() -> dict[str, Work]:
    table = patterns.lines()
    works: dict[str, Work] = {}
    for one in patterns.found():
        compiled = one.compiled
        if compiled is not None and patterns.reach(one, table) in patterns.FED:
            name = f"{one.file} {one.name} {one.use} {compiled.pattern!r}"
            works[name] = (worstkinds.run(compiled, one.use), partial(worstkinds.kinds, compiled))
    return works


def _readers() -> dict[str, Callable[[str], object]]:
    loads = import_module("controlplane.api.parsers").loads
    faulty = import_module("controlplane.api.refusals").Faulty
    renderer = import_module("controlplane.api.rendering").Renderer

    def body(text: str) -> None:
        with contextlib.suppress(faulty):
            loads(text.encode())

    def address(text: str) -> None:
        with contextlib.suppress(Resolver404):
            resolve(f"/{text}")

    def cookies(text: str) -> None:
        text = text[: bounds.MAX_HEAD]
        if not bounds.is_dear_cookie([(b"cookie", text.encode())]):
            parse_cookie(text)

    def kind(text: str) -> None:
        parse_header_parameters(text[: bounds.MAX_MEDIA])

    def accepted(text: str) -> None:
        request = HttpRequest()
        request.META["HTTP_ACCEPT"] = text[: bounds.MAX_MEDIA]
        with contextlib.suppress(NotAcceptable):
            DefaultContentNegotiation().select_renderer(Request(request), [renderer(), JSONRenderer()])

    def form(text: str) -> None:
        with contextlib.suppress(Exception):  # too many fields is a refusal as well
            QueryDict(text)

    return {
        "a body of the API": body,
        "an address": address,
        "a form": form,
        "cookies": cookies,
        "what a body is said to be": kind,
        "what a client accepts": accepted,
        "where to go after signing in": lambda text: url_has_allowed_host_and_scheme(text, {"weft"}),
        "a line of the log": lambda text: hide_secrets(None, "", {"path": text}),
    }


def _texts() -> Iterator[Kind]:
    """For readers: each letter and pair of letters again and again, in a list, in a text and by itself."""
    pumps = [*LETTERS, *(a + b for a, b in product(LETTERS, LETTERS) if a != b), "{},", '"",', "0,", "1e9,", "\\u0061"]
    for (begin, end), pump in product((("", ""), ("[", "0]"), ('"', ""), ('["', '"]'), ("a://", "!")), pumps):
        yield Kind(begin, pump, end)
    yield Kind("[", "[],", "0]")
    yield Kind('{"a":[', '"b",', "0]}")
