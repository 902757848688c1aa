"""What Prometheus makes of a running Weft: every query of the dashboard gives a series, every rule can be evaluated."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import psycopg
import pytest
import redis

from controlplane.testbed.prometheus import prometheus as run_prometheus
from controlplane.testbed.prometheus import scrape
from tests.flows.processes import answering
from tests.servers import (
    ROOT,
    answers,
    create_database,
    drop_database,
    environment,
    free_port,
    manage,
    running,
    wait_until,
)

pytestmark = pytest.mark.prometheus
TOKEN = "only for these tests"
DASHBOARD = ROOT / "deploy" / "grafana" / "weft.json"
RULES = ROOT / "deploy" / "weft.rules.yml"
VARIABLES = {"$team": ".*", "$__rate_interval": "30s"}


@dataclass(frozen=True)
class Watched:
    """A Prometheus that scrapes a Weft with a web process and a worker, half an hour after its beginning."""

    url: str

    def get(self, path: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def ask(self, query: str) -> list[Any]:
        rows: list[Any] = self.get(f"query?query={quote(query)}")["result"]
        return [row for row in rows if row["value"][1] != "NaN"]


@pytest.fixture(scope="module")
def watched(
    postgres_url: str, _migrated_template: str, _redis_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    database = create_database(postgres_url, "weft_watched", _migrated_template)
    with redis.Redis.from_url(_redis_server) as client:
        client.flushall()
    web, worker = free_port(), free_port()
    env = environment(folder / "home", DATABASE_URL=database, REDIS_URL=_redis_server, CLUSTER="simulated")
    env |= {"METRICS_TOKEN": TOKEN, "WEFT_WORKER_METRICS_PORT": str(worker), "WEFT_ALIVE": str(folder)}
    manage("simulate", "--hours", "0.5", env=env)
    with psycopg.connect(database, autocommit=True) as rows:  # from here on a minute takes a minute, as in a cluster
        rows.execute("UPDATE controlplane_clusterstate SET speed = 1")
    celery = [sys.executable, "-m", "celery", "-A", "controlplane.celery", "worker", "--pool", "threads"]
    commands = {
        "web": [sys.executable, "-m", "uvicorn", "controlplane.asgi:application", "--port", str(web)],
        "worker": [*celery, "--concurrency", "2", "--without-gossip", "--without-mingle"],
    }
    configuration = scrape({"weft": f"127.0.0.1:{web}", "weft-worker": f"127.0.0.1:{worker}"})
    configuration["scrape_configs"][0]["authorization"] = {"credentials": TOKEN}
    configuration["global"]["evaluation_interval"] = "1s"
    rules = folder / "weft.rules.yml"
    rules.write_text(RULES.read_text().replace("interval: 30s", "interval: 1s"))
    configuration["rule_files"] = [str(rules)]
    with ExitStack() as stack:
        for name, command in commands.items():
            process = stack.enter_context(running(command, log=folder / f"{name}.log", env=env))
            if name == "web":
                answering(f"http://127.0.0.1:{web}", process, folder / "web.log")
        wait_until(lambda: answers(f"http://127.0.0.1:{web}/readyz"), "every loop", 90)
        one = Watched(stack.enter_context(run_prometheus(folder, configuration)))
        wait_until(lambda: len(one.ask("up == 1")) == 2, "both scrapes", 60)
        wait_until(lambda: bool(one.ask("rate(weft_loop_rounds_total[30s])")), "two rounds of the worker", 60)
        wait_until(lambda: bool(one.ask("weft_audit_age_seconds")), "an audit", 150)
        wait_until(lambda: bool(one.ask("weft:services:by_standing")), "the rules", 60)
        yield one
    drop_database(postgres_url, "weft_watched")


def queries() -> dict[str, str]:
    """Each query of the dashboard, by its panel or variable."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            found[f"variable {variable['name']}"] = f"count by ({label}) ({series})"
    return found


def test_every_query_of_the_dashboard_gives_a_series(watched: Watched) -> None:
    asked = queries()
    assert len(asked) > 20
    empty = []
    for name, query in asked.items():
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)
        assert "$" not in query, query
        if not watched.ask(query):
            empty.append((name, query))
    assert not empty


def test_every_rule_is_evaluated_and_every_recorded_series_is_there(watched: Watched) -> None:
    rules = [rule for group in watched.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(re.findall(r"- (?:alert|record):", RULES.read_text()))
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []
    recorded = [rule["name"] for rule in rules if rule["type"] == "recording"]
    assert [name for name in recorded if not watched.ask(name)] == []
    # A Weft that runs well raises none of the alerts about itself.
    about_weft = ("WeftRoundOverdue", "WeftLoopWithoutLease", "WeftInvariantBroken", "WeftNotScraped")
    assert [rule["name"] for rule in rules if rule["name"] in about_weft and rule.get("state") == "firing"] == []


def test_what_is_scraped_is_what_the_product_says_of_its_services(watched: Watched) -> None:
    words = {row["metric"]["service"]: row["metric"]["standing"] for row in watched.ask("weft_service_standing == 1")}
    violated = {row["metric"]["service"] for row in watched.ask("weft:service_budget_left < 0")}
    assert words
    assert violated == {service for service, word in words.items() if word == "violated"}
