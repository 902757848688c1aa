"""Pages full of hostile text in a real browser: nothing runs, nothing breaks the policy, nothing is made of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.processes import answering
from tests.flows.test_browser import sign_in
from tests.flows.test_headers import REPORT
from tests.frontend.factory import PASSWORD
from tests.hostile.database import ADMIN
from tests.hostile.strings import MARK
from tests.servers import ROOT, environment, free_port, running

# What the page consists of once its scripts have run: tags, attributes and addresses that come from the strings.
MADE = """(mark) => [...document.querySelectorAll('*')].flatMap((element) => {
    const made = element.tagName.toLowerCase().includes(mark) ? [element.tagName] : [];
    for (const { name, value } of element.attributes)
        if (name.includes(mark) || (name.startsWith('on') && value.includes(mark)))
            made.push(`${element.tagName} ${name}`);
    for (const to of [element.href, element.src, element.action])
        if (typeof to === 'string' && to.includes(mark) && new URL(to).origin !== location.origin) made.push(to);
    return made;
})"""
RUNS = """
    window.ran = [];
    for (const name of ['alert', 'confirm', 'prompt']) window[name] = (text) => window.ran.push(`${name} ${text}`);
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_page_runs_or_is_made_of_what_others_wrote(tmp_path: Path, browser: Any) -> None:
    home, port, log = tmp_path / "home", free_port(), tmp_path / "log"
    env = environment(home) | {"WEFT_WHAT_IF": "false"}
    fill = [sys.executable, "-m", "tests.hostile.served"]
    made = subprocess.run(fill, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    todo = json.loads(made.stdout)
    serve = [sys.executable, "-m", "uvicorn", "tests.hostile.served:application", "--port", str(port)]
    wrong: dict[str, list[str]] = {}
    marked = 0
    with running(serve, log=log, env=env) as process:
        url = f"http://127.0.0.1:{port}"
        answering(url, process, log)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_init_script(REPORT + RUNS)
        page = context.new_page()
        said: list[str] = []
        page.on("dialog", lambda dialog: (said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: said.append(str(error)))
        sign_in(page, url, ADMIN, PASSWORD)
        for address in todo:
            said.clear()
            page.goto(f"{url}{address}", wait_until="load")
            found = [*said, *page.evaluate("[...window.broken, ...window.ran]"), *page.evaluate(MADE, MARK)]
            wrong.update({address: found} if found else {})
            marked += MARK in page.content()
        context.close()
    assert not wrong
    assert marked > 0.6 * len(todo)
