"""What the design promises and a machine can check: contrast, no inline script or style, nothing marked safe."""

import itertools
import math
import re
from pathlib import Path

import pytest

FRONTEND = Path(__file__).resolve().parents[2] / "frontend"
STATIC = FRONTEND / "static" / "frontend"
TEMPLATES = sorted((FRONTEND / "templates").rglob("*.html"))
AA_TEXT, AA_GRAPHICS = 4.5, 3.0
TEXT_ON_GROUND = [
    *itertools.product(("text", "dim", "accent", "ok", "warn", "bad"), ("panel", "ground")),
    *((tone, f"{tone}-ground") for tone in ("accent", "ok", "warn", "bad", "dim")),
    ("text", "dim-ground"), ("text", "accent-ground"), ("on-accent", "accent"), ("text", "warn-ground"),
]  # fmt: skip


def tokens() -> dict[str, tuple[str, str]]:
    css = (STATIC / "tokens.css").read_text()
    return {name: (a, b) for name, a, b in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", css)}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON_GROUND)
def test_text_can_be_read_on_its_ground(text: str, ground: str, theme: int) -> None:
    known = tokens()
    assert contrast(known[text][theme], known[ground][theme]) >= AA_TEXT


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", [*(f"team-{i}" for i in range(8)), "control"])
def test_a_colour_that_means_something_can_be_seen(name: str, theme: int) -> None:
    known = tokens()
    assert contrast(known[name][theme], known["panel"][theme]) >= AA_GRAPHICS


def test_contrast_is_the_standards_one() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def seen_by(colour: str, kind: str) -> tuple[float, float, float]:
    """CIE Lab of the colour, for protan and deutan eyes as Vienot, Brettel and Mollon (1999) simulate them."""
    r, g, b = ((int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5))
    if kind == "protanopia":
        r, g, b = 0.11238 * r + 0.88762 * g, 0.11238 * r + 0.88762 * g, max(0.0, 0.00401 * (r - g) + b)
    elif kind == "deuteranopia":
        r, g, b = 0.29275 * r + 0.70725 * g, 0.29275 * r + 0.70725 * g, max(0.0, 0.02234 * (g - r) + b)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["all cones", "protanopia", "deuteranopia"])
def test_teams_can_be_told_apart_with_every_kind_of_eye(kind: str, theme: int) -> None:
    seen = [seen_by(tokens()[f"team-{i}"][theme], kind) for i in range(8)]
    apart = {(i, j): math.dist(seen[i], seen[j]) for i, j in itertools.combinations(range(8), 2)}
    assert min(apart.values()) >= 8  # 2.3 is just noticeable side by side


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_escape_everything_and_carry_no_script_or_style(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"\|\s*safe|autoescape off|mark_safe", text)
    assert not re.search(r"\sstyle=|\son\w+=|hx-on|<style|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert "https://" not in text.replace("http://www.w3.org", "")


def test_python_marks_nothing_as_safe() -> None:
    sources = [*FRONTEND.rglob("*.py"), *(FRONTEND.parent / "controlplane").rglob("*.py")]
    unsafe = r"mark_safe|SafeText|__html__|SafeString\((?!\"<br>\"\))"
    told = [p.name for p in sources if re.search(unsafe, p.read_text())]
    assert not told
    # What is not escaped is the first argument, so it is a literal.
    loose = [p.name for p in sources if re.search(r"format_html\((?!\s*['\"])", p.read_text())]
    assert not loose


def test_our_scripts_make_no_page_or_code_of_text() -> None:
    scripts = sorted(STATIC.glob("*.js"))
    assert scripts
    for path in scripts:
        found = re.findall(
            r"(?:inner|outer)HTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc",
            path.read_text(),
        )
        assert not found, path.name


def test_css_takes_its_colours_from_the_tokens() -> None:
    css = (STATIC / "app.css").read_text()
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?![^{}]*\{)", re.sub(r"#[\w-]+(?=[^;{}]*\{)", "", css))
