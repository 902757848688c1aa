"""A person opens a notebook in a browser: through Weft's page to the notebook's own host, until the session ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain import notebookhosts
from controlplane.models import Session
from scheduler.model.workload import Phase
from tests.flows.test_signed_out import sign_in
from tests.frontend.factory import PASSWORD, World, document
from tests.notebookproxy.rig import Rig, proxied
from tests.serving import serving

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 20_000  # ms


@pytest.fixture
def place(transactional_db: None, tmp_path: Path, settings: Any) -> Iterator[tuple[str, Rig, Any]]:
    world = World().base()
    notebook = world.add(document("notebook", "plots", "nlp"), Phase.RUNNING)
    with serving() as url, proxied(tmp_path, url, settings) as rig:
        rig.open(notebook.pk)
        yield url, rig, notebook


def test_connect_opens_the_notebook_and_an_ended_session_asks_to_sign_in(
    page: Any, place: tuple[str, Rig, Any]
) -> None:
    url, rig, notebook = place
    sign_in(page, url)
    page.goto(f"{url}/notebooks/nlp/plots/")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Connect").click()
    lab = opened.value
    lab.get_by_role("heading", name="The lab").wait_for(timeout=LONG)
    host = notebookhosts.origin(f"http://notebooks.localhost:{rig.port}", notebook.pk)
    assert lab.url == f"{host}/"  # the ticket is gone from the address
    lab.locator("#said", has_text="out: 1 + 1").wait_for(timeout=LONG)
    assert "sessionid" not in rig.lab.asked[-1][2].get("cookie", "")
    # What runs in a notebook is of another origin, and reads nothing of Weft's, where the browser is signed in.
    asked = "fetch(url, {credentials: 'include'}).then(() => 'read', () => 'kept')"
    assert lab.evaluate(f"(url) => {asked}", f"{url}/workloads/") == "kept"

    Session.objects.all().delete()
    lab.wait_for_function("document.title === 'closed 1008'", timeout=LONG)
    lab.reload()
    lab.get_by_label("User name").fill("mel")
    lab.get_by_label("Password").fill(PASSWORD)
    lab.get_by_role("button", name="Sign in", exact=True).click()
    lab.get_by_role("heading", name="The lab").wait_for(timeout=LONG)
    assert lab.url == f"{host}/"
