"""The proxy of notebooks: who gets through, what is passed on and what is not, and what counts as use."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import httpx
import pytest

from controlplane.domain import notebookhosts
from controlplane.models import Membership, Session, User, Workload
from controlplane.security import notebookkeys
from controlplane.security.notebookkeys import Visit
from controlplane.security.sessions import digest_of
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit as SignedIn
from tests.frontend.factory import World, document
from tests.notebookproxy.rig import Rig, proxied
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
WEFT = "http://weft.example"
HTML = {"Accept": "text/html"}


@dataclass
class Place:
    """A running notebook of team nlp behind the proxy."""

    rig: Rig
    notebook: Any
    visit: SignedIn

    @property
    def host(self) -> str:
        return notebookhosts.origin(f"http://notebooks.localhost:{self.rig.port}", self.notebook.pk)

    def client(self, cookie: str = "") -> httpx.Client:
        """A browser at the notebook's host, which its name leads to this machine."""
        headers = {"Host": self.host.removeprefix("http://")}
        made = httpx.Client(base_url=f"http://127.0.0.1:{self.rig.port}", headers=headers, timeout=20, trust_env=False)
        if cookie:
            made.headers["Cookie"] = f"weft-notebook={cookie}; _xsrf=2"
        return made

    def way_in(self, user: str, to: str = "/lab") -> Any:
        """What Weft's page answers."""
        return self.visit(user).get(f"/notebooks/{self.notebook.pk}/enter", {"to": to})

    def enter(self, user: str = "mel") -> httpx.Client:
        """A browser that came in from Weft's page."""
        where = self.way_in(user).context["where"]
        assert where.startswith(f"{self.host}/lab?weft_ticket=")
        answer = self.client().get(where.removeprefix(self.host))
        assert (answer.status_code, answer.headers["Location"]) == (303, "/lab")
        (cookie,) = answer.headers.get_list("set-cookie")
        assert {"HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; ")), cookie
        return self.client(cookie.partition(";")[0].partition("=")[2])


@pytest.fixture
def place(transactional_db: None, tmp_path: Path, visit: SignedIn, settings: Any) -> Iterator[Place]:
    world = World().base()
    with proxied(tmp_path, WEFT, settings) as rig:
        notebook = world.add(document("notebook", "plots", "nlp"), Phase.RUNNING)
        rig.open(notebook.pk)
        yield Place(rig, notebook, visit)


def told(notebook: Any, **changes: Any) -> None:
    Workload.objects.filter(pk=notebook.pk).update(**changes)


def test_a_member_comes_in_from_wefts_page_and_sees_what_the_notebook_answers(place: Place) -> None:
    with place.enter() as browser:
        answer = browser.get("/lab/tree?file=%2Fa%20b.ipynb")
        assert (answer.status_code, "The lab" in answer.text) == (200, True)
        method, path, headers = place.rig.lab.asked[-1]
        assert (method, path) == ("GET", "/lab/tree?file=%2Fa%20b.ipynb")
        assert headers["host"] == place.host.removeprefix("http://")
        body = bytes(range(256)) * 4096
        sent = browser.put("/api/contents/a", content=body, headers={"Origin": place.host})
        assert (sent.content, sent.headers["X-Length"]) == (body[::-1], str(len(body)))


def test_what_is_ours_is_not_passed_on_and_its_cookies_stay_its_hosts(place: Place) -> None:
    with place.enter() as browser:
        answer = browser.get(
            "/lab", headers={"Authorization": "Bearer of-somebody", "Connection": "close, X-Hop", "X-Hop": "1"}
        )
        _, _, headers = place.rig.lab.asked[-1]
        assert headers["cookie"] == "_xsrf=2"
        assert headers["authorization"] == f"token {notebookkeys.token(place.notebook.pk)}"
        assert "x-hop" not in headers
        assert answer.headers.get_list("set-cookie") == ["_xsrf=2; Path=/"]


def test_a_token_of_its_users_own_is_theirs_to_type(place: Place) -> None:
    told(place.notebook, spec={**place.notebook.spec, "env": {"JUPYTER_TOKEN": "mine"}})
    with place.enter() as browser:
        browser.get("/lab")
        assert "authorization" not in place.rig.lab.asked[-1][2]


@pytest.mark.parametrize(("user", "status"), [("vic", 403), ("", 302), ("out", 404)])
def test_who_may_not_act_in_its_team_is_not_let_in(place: Place, user: str, status: int) -> None:
    assert place.way_in(user).status_code == status
    assert place.rig.lab.asked == []


def test_who_has_no_cookie_is_sent_to_sign_in_and_a_request_of_a_page_is_told_so(place: Place) -> None:
    door = f"{WEFT}/notebooks/{place.notebook.pk}/enter"
    with place.client() as browser:
        page = browser.get("/lab?x=1", headers=HTML)
        assert (page.status_code, page.headers["Location"]) == (303, f"{door}?to=/lab?x%3D1")
        assert browser.get("/api/status").status_code == 401
        forged = browser.get("/lab?weft_ticket=abc", headers=HTML)
        assert (forged.status_code, forged.headers["Location"]) == (303, f"{door}?to=/lab")
    with place.client("abc") as browser:
        assert browser.get("/api/status").status_code == 401
    assert place.rig.lab.asked == []


def test_a_ticket_and_a_cookie_are_of_one_notebook(place: Place) -> None:
    user = User.objects.get(username="mel")
    other = Visit(uuid4(), user.pk, digest_of("key"))
    with place.client() as browser:
        assert browser.get(f"/lab?weft_ticket={notebookkeys.ticket(other)}").status_code == 401
    with place.client(notebookkeys.cookie(other)) as browser:
        assert browser.get("/lab").status_code == 401
    with place.client(notebookkeys.ticket(Visit(place.notebook.pk, user.pk, digest_of("key")))) as browser:
        assert browser.get("/lab").status_code == 401, "a ticket is no cookie"


def test_a_session_that_ended_and_a_role_that_was_taken_let_nobody_in(place: Place) -> None:
    with place.enter() as browser:
        Session.objects.all().delete()
        page = browser.get("/lab", headers=HTML)
        assert page.status_code == 303 and page.headers["Location"].startswith(WEFT)
    with place.enter() as browser:
        Membership.objects.filter(user__username="mel").delete()
        assert browser.get("/lab").status_code == 403
    assert place.rig.lab.asked == []


def test_a_notebook_that_does_not_run_sends_its_page_to_weft(place: Place) -> None:
    with place.enter() as browser:
        told(place.notebook, phase=Phase.SUSPENDED.value)
        assert browser.get("/lab", headers=HTML).status_code == 303
        assert browser.get("/api/status").status_code == 409
    there = place.way_in("mel")
    assert there["Location"] == f"/notebooks/{place.notebook.team.name}/plots/"


def test_a_server_that_does_not_answer_and_a_place_that_is_not_known_are_said(place: Place) -> None:
    with place.enter() as browser:
        place.rig.file.write_text("[]")
        assert browser.get("/lab").status_code == 503
        place.rig.file.write_text(f'{{"{place.notebook.pk}": "127.0.0.1:1"}}')
        assert browser.get("/lab").status_code == 502


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", WEFT])
def test_only_the_notebooks_own_pages_change_anything(place: Place, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    with place.enter() as browser:
        assert browser.post("/api/contents", content=b"x", headers=headers).status_code == 403
        handshake = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": "aaaa",
            "Sec-WebSocket-Version": "13",
        }
        assert browser.get("/api/kernels/1/channels", headers=headers | handshake).status_code == 403
    assert place.rig.lab.asked == []


def test_another_host_is_no_notebook(place: Place) -> None:
    with place.enter() as browser:
        for host in ("127.0.0.1", "notebooks.localhost", f"n-{'0' * 32}.evil.example", "n-x.notebooks.localhost"):
            assert browser.get("/lab", headers={"Host": host}).status_code == 404
        assert browser.get("/healthz", headers={"Host": "127.0.0.1"}).text == "ok"


def test_a_websocket_carries_both_ways_and_ends_when_its_visitor_may_be_there_no_longer(place: Place) -> None:
    with place.enter() as browser:
        cookie = browser.headers["Cookie"]

    async def talk() -> int | None:
        headers = {"Host": place.host.removeprefix("http://"), "Origin": place.host, "Cookie": cookie}
        address = f"http://127.0.0.1:{place.rig.port}/api/kernels/1/channels"
        protocol = "v1.kernel.websocket.jupyter.org"
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(address, headers=headers, protocols=["other", protocol], max_msg_size=0) as socket,
        ):
            assert socket.protocol == protocol
            await socket.send_str("1 + 1")
            assert await socket.receive_str(timeout=20) == "out: 1 + 1"
            large = bytes(range(256)) * 20_000
            await socket.send_bytes(large)
            assert await socket.receive_bytes(timeout=20) == large[::-1]
            await asyncio.to_thread(_forget_sessions)
            closed = await socket.receive(timeout=20)
            assert closed.type is aiohttp.WSMsgType.CLOSE
            return socket.close_code

    assert asyncio.run(talk()) == 1008


def _forget_sessions() -> None:
    from django.db import connection

    Session.objects.all().delete()
    connection.close()


def test_what_somebody_does_counts_as_use_and_what_a_page_asks_by_itself_does_not(place: Place) -> None:
    def idle_since() -> float | None:
        found: float | None = Workload.objects.values_list("idle_since", flat=True).get(pk=place.notebook.pk)
        return found

    with place.enter() as browser:
        told(place.notebook, idle_since=7.0)
        browser.get("/api/kernels")
        assert idle_since() == 7.0
        browser.post("/api/contents", content=b"x", headers={"Origin": place.host})
        assert idle_since() is None


def test_a_kernel_that_computes_counts_as_use(place: Place, tmp_path: Path, settings: Any) -> None:
    with proxied(tmp_path, WEFT, settings, ask_seconds=0.05) as rig:
        rig.open(place.notebook.pk)
        told(place.notebook, idle_since=7.0)
        rig.lab.kernels = [{"execution_state": "idle"}]
        wait_until(lambda: len(rig.lab.asked) > 2, "the kernels to be asked", 20)
        assert Workload.objects.get(pk=place.notebook.pk).idle_since == 7.0
        rig.lab.kernels = [{"execution_state": "idle"}, {"execution_state": "busy"}]
        wait_until(lambda: Workload.objects.get(pk=place.notebook.pk).idle_since is None, "its use", 20)
    assert rig.lab.asked[-1][2]["authorization"] == f"token {notebookkeys.token(place.notebook.pk)}"


def test_rest_names_the_page_that_leads_to_it_and_its_pods_have_the_token(place: Place) -> None:
    found = place.visit("mel").get(f"/api/v1/notebooks/{place.notebook.pk}/connect").json()
    assert found["browser_url"] == f"{WEFT}/notebooks/{place.notebook.pk}/enter"
    spec = notebookkeys.with_token(place.notebook.spec, place.notebook.pk)
    assert spec["env"] == {"JUPYTER_TOKEN": notebookkeys.token(place.notebook.pk)}
    own = {**place.notebook.spec, "secrets": [{"env": "JUPYTER_TOKEN", "name": "mine", "key": "token"}]}
    assert notebookkeys.with_token(own, place.notebook.pk) == own
    training = {**place.notebook.spec, "type": "training"}
    assert notebookkeys.with_token(training, place.notebook.pk) == training
