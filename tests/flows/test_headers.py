"""What browsers are told to refuse: every page opened in a real one, which reports what breaks its policy."""

import sqlite3
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.security import authorization
from tests.flows.processes import Server, started, up
from tests.flows.test_browser import sign_in

REPORT = """
    window.broken = [];
    document.addEventListener('securitypolicyviolation', (event) =>
        window.broken.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
PATIENCE = 120_000  # ms, on a machine that does other things as well
NO_PAGES = ("stream", "usage/export.csv", "services/report.csv")  # one never ends, the others are files
CONSOLE = ("user", "team", "quota", "policyversion", "auditentry", "event")


def addresses(weft: Server) -> list[str]:
    """Every page that needs no parameter, and one of each kind of those that need one."""
    pages = [
        "/" + rule.address.lstrip("/")
        for rule in authorization.rules()
        if "GET" in rule.methods and not rule.address.startswith(("api/", "admin/", "healthz", "readyz", "metrics"))
        and "<" not in rule.address and rule.address not in NO_PAGES
    ]  # fmt: skip
    rows = weft.http.get("/api/v1/workloads").json()["results"]
    kinds = {row["kind"] if "kind" in row else row["type"]: row["uid"] for row in rows}
    tabs = ("timeline", "why", "placement", "logs", "file", "objective")
    pages += [f"/workloads/{uid}/?tab={tab}" for uid in kinds.values() for tab in tabs]
    node = weft.http.get("/api/v1/nodes").json()["results"][0]["name"]
    team = weft.http.get("/api/v1/teams").json()["results"][0]["name"]
    pages += [f"/map/{node}/", f"/teams/{team}/budgets/", "/api/docs", "/no-such-page", "/admin/"]
    pages += [f"/admin/controlplane/{model}/" for model in CONSOLE]
    return [*pages, "/admin/controlplane/quota/add/", "/admin/controlplane/policyversion/add/"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_page_breaks_its_own_content_security_policy(home: Path, browser: Any) -> None:
    broken: dict[str, list[str]] = {}
    with up(home) as weft:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_init_script(REPORT)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        told: list[str] = []
        page.on("console", lambda said: told.append(said.text) if "Content Security Policy" in said.text else None)
        sign_in(page, weft.url, "admin", (weft.home / "password").read_text().strip())
        visited = addresses(weft)
        for address in visited:
            told.clear()
            answer = page.goto(f"{weft.url}{address}", wait_until="load")
            if not address.startswith("/parts/"):  # a part by itself has no script that would fill it
                page.wait_for_selector(".loading", state="detached")
            found = [*page.evaluate("window.broken"), *told]
            if found:
                broken[address] = found
            policy = answer.headers["content-security-policy"]
            if not address.startswith(("/admin/", "/api/docs")):
                assert "unsafe" not in policy, address
        context.close()
    assert len(visited) > 30
    assert not broken


def test_a_script_that_got_into_a_page_does_not_run(home: Path, browser: Any) -> None:
    """The alarm is tested: the browser refuses what the policy forbids, and says so."""
    with up(home) as weft:
        context = browser.new_context()
        context.add_init_script(REPORT)
        page = context.new_page()
        page.goto(f"{weft.url}/login/")
        page.evaluate("""() => {
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
            document.body.insertAdjacentHTML('beforeend', '<p style="color: red">x</p>');
        }""")
        assert page.evaluate("window.ran") is None
        assert len(page.evaluate("window.broken")) == 2
        context.close()


HEADERS = {
    "Content-Security-Policy": "default-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/login/", "/api/v1/schema", "/api/v1/nothing", "/admin/", "/healthz", "/no-such"])
def test_every_answer_carries_the_headers(client: Any, path: str) -> None:
    answer = client.get(path)
    for name, value in HEADERS.items():
        assert value in answer[name], name


def cookies(answer: httpx.Response) -> dict[str, Morsel[str]]:
    """What an answer has the browser keep."""
    found = SimpleCookie()
    for header in answer.headers.get_list("set-cookie"):
        found.load(header)
    return dict(found)


def test_make_up_keeps_its_files_to_itself_and_takes_no_address_from_who_asks(tmp_path: Path) -> None:
    home = tmp_path / ".weft"
    home.mkdir(mode=0o755)
    (home / "weft.sqlite3").touch(mode=0o644)  # as an earlier version left it
    with started(home) as (_, url):
        token = cookies(httpx.get(f"{url}/login/"))["csrftoken"].value
        form = {"username": "mel", "password": "wrong", "csrfmiddlewaretoken": token}
        claimed = {"X-Forwarded-For": "203.0.113.9", "Cookie": f"csrftoken={token}"}
        assert httpx.post(f"{url}/login/", data=form, headers=claimed).status_code == 200
        modes = {path.name: path.stat().st_mode & 0o777 for path in home.rglob("*") if path.is_file()}
        database = sqlite3.connect(f"file:{home / 'weft.sqlite3'}?mode=ro", uri=True)
        rows = database.execute("SELECT actor, address FROM controlplane_auditentry").fetchall()
        database.close()
    assert rows == [("mel", "127.0.0.1")]
    assert {"weft.sqlite3", "weft.sqlite3-wal", "cluster.sqlite3", "secret_key", "password"} <= modes.keys()
    assert set(modes.values()) == {0o600}, modes
    assert home.stat().st_mode & 0o777 == 0o700


def test_behind_a_proxy_that_speaks_https_cookies_are_for_https_and_this_host_alone(home: Path) -> None:
    with started(home, WEFT_TLS="true", WEFT_TRUST_PROXY="true") as (_, url):  # supervisors come without the proxy
        safe = url.replace("http:", "https:")
        proxied = {"X-Forwarded-Proto": "https", "Referer": f"{safe}/login/"}
        assert httpx.get(f"{url}/readyz?exclude=loops").status_code == 200
        plain = httpx.get(f"{url}/login/")
        assert (plain.status_code, plain.headers["Location"]) == (301, f"{safe}/login/")
        seen = cookies(httpx.get(f"{url}/login/", headers=proxied))
        token = seen["__Host-csrftoken"].value
        form = {"username": "mel", "password": (home / "password").read_text().strip(), "csrfmiddlewaretoken": token}
        answer = httpx.post(f"{url}/login/", data=form, headers={**proxied, "Cookie": f"__Host-csrftoken={token}"})
        assert answer.status_code == 302, answer.text
        seen |= cookies(answer)
        assert seen["__Host-sessionid"]["httponly"]
        for name, cookie in seen.items():
            assert name.startswith("__Host-")
            assert (cookie["secure"], cookie["path"], cookie["domain"], cookie["samesite"]) == (True, "/", "", "Lax")
