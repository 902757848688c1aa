"""A new colleague's first day in a real browser: single sign-on, team, token, service account, second step."""

import time
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from axe_playwright_python.sync_playwright import Axe

from tests.flows.processes import up
from tests.flows.test_browser import sign_in, sign_out
from tests.identity import IdentityProvider

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 800}


def assert_accessible_everywhere(page: Any) -> None:
    """No violation in light and dark, on a desk and on a phone; nothing sticks out to the side."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for size in (PHONE, DESK):
            page.set_viewport_size(size)
            found = Axe().run(page).response["violations"]
            assert not [(v["id"], [node["html"] for node in v["nodes"]]) for v in found], (page.url, scheme, size)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page.url, size)
    page.emulate_media(color_scheme="light")


def see_settings_and_make_a_token(page: Any) -> str:
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("heading", name="Settings").wait_for()
    assert_accessible_everywhere(page)
    page.get_by_label("What it is for").fill("laptop")
    page.get_by_role("button", name="Create a token").click()
    secret: str = page.locator("#secret").inner_text()
    assert secret.startswith("weft_")
    assert_accessible_everywhere(page)
    page.get_by_role("link", name="Revoke laptop").click()
    page.locator("#dialog").get_by_role("heading", name="Revoke laptop?").wait_for()
    page.locator("#dialog").get_by_role("button", name="Cancel").click()
    return secret


def let_in_and_make_a_service_account(page: Any, url: str, team: str, person: str) -> None:
    page.goto(f"{url}/teams/{team}/people/")
    page.get_by_label("User name").fill(person)
    page.get_by_role("button", name="Add", exact=True).click()
    page.locator(".toast", has_text=f"{person} is member of {team}.").wait_for()
    assert_accessible_everywhere(page)
    page.get_by_label("Name", exact=True).fill("actions")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name=f"{team}/actions").wait_for()
    page.get_by_label("What it is for").fill("deploy")
    page.get_by_role("button", name="Create a token").click()
    page.locator("#secret").wait_for()
    assert_accessible_everywhere(page)


def set_up_the_second_step(page: Any, password: str) -> str:
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("link", name="Set up").click()
    assert_accessible_everywhere(page)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", name="1. Scan").wait_for()
    page.locator("img.qr").evaluate("(picture) => picture.decode()")  # waits for it, and fails if it is none
    assert_accessible_everywhere(page)
    secret: str = page.locator("code").inner_text()
    page.get_by_label("Code").fill(shown_by_the_app(secret, -1))
    page.get_by_role("button", name="Turn on").click()
    page.locator("#codes").wait_for()
    assert_accessible_everywhere(page)
    return secret


def shown_by_the_app(secret: str, steps: int = 0) -> str:
    """Its code of this or a neighbouring half minute; each is of use once."""
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))


@pytest.mark.embedded
def test_first_day_by_single_sign_on_then_team_token_service_account_and_second_step(
    home: Path, page: Any, identity: IdentityProvider
) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("response", lambda answer: faults.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None)
    with up(home, **identity.variables) as weft:
        password = (home / "password").read_text().strip()
        page.goto(weft.url)
        assert_accessible_everywhere(page)
        page.get_by_role("button", name="Sign in with Example").click()  # nobody is there: refused
        page.get_by_role("heading", name="You are not signed in").wait_for()
        assert_accessible_everywhere(page)
        page.get_by_role("link", name="Back to the sign-in").click()
        identity.person("zoe", "ml")
        page.get_by_role("button", name="Sign in with Example").click()
        page.get_by_role("heading", name="Dashboard").wait_for()
        secret = see_settings_and_make_a_token(page)
        assert "You are in no team yet." in page.inner_text("main")
        sign_out(page)

        sign_in(page, weft.url, "ada", password)
        team = weft.http.get("/api/v1/teams/nlp").json()["name"]
        let_in_and_make_a_service_account(page, weft.url, team, "zoe")
        bearer = {"Authorization": f"Bearer {secret}"}
        assert weft.http.get("/api/v1/me", headers=bearer).json()["teams"][0] == {"team": team, "role": "member"}

        key = set_up_the_second_step(page, password)
        page.get_by_role("link", name="Done").click()
        sign_out(page)
        page.get_by_label("User name").fill("ada")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("heading", name="Two-factor authentication").wait_for()
        assert_accessible_everywhere(page)
        page.get_by_label("Code").fill(shown_by_the_app(key))
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Dashboard").wait_for()
    assert not faults
