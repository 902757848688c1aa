"""The rules of deploy/: promtool finds them sound and plays their tests; their numbers are those of the product."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from autoscaler import sla
from controlplane.api.metrics import SPANS
from controlplane.testbed.prometheus import find_promtool
from tests.servers import ROOT

DEPLOY = ROOT / "deploy"
RULES, TESTS = "weft.rules.yml", "weft.rules.test.yml"
pytestmark = pytest.mark.prometheus


def promtool(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [find_promtool(), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_promtool_finds_the_rules_and_the_configuration_sound(tmp_path: Path) -> None:
    done = promtool(DEPLOY, "check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr
    configuration = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    # Ours is built without the discovery of machines, and the token is a file that an installation has.
    jobs = [job for job in configuration["scrape_configs"] if "dns_sd_configs" not in job]
    configuration["scrape_configs"] = [{**job, "authorization": {"credentials": "token"}} for job in jobs]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    (tmp_path / RULES).write_text((DEPLOY / RULES).read_text())
    done = promtool(tmp_path, "check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_promtool_plays_the_tests_of_the_rules() -> None:
    done = promtool(DEPLOY, "test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (":fast > 14.4", ":fast > 16"),
        (":fast > 14.4", ":fast > 1"),
        (":slow > 6", ":slow > 7"),
        ("budget_left < 0.1 and", "budget_left < 0.05 and"),
        ("budget_left < 0\n", "budget_left < -1\n"),
        ('and on (team, service) weft:service_burn_rate{span="5m"}', ""),
        ("max by (team, service, span)", "sum by (team, service, span)"),
        ("(weft_loop_stalled) == 1", "(weft_loop_stalled) == 2"),
        ("for: 2m", "for: 20m"),
        ("absent(weft_loop_stalled)", "absent(weft_no_such_series)"),
    ],
)
def test_a_planted_fault_in_the_rules_is_noticed(was: str, now: str, tmp_path: Path) -> None:
    text = (DEPLOY / RULES).read_text()
    assert was in text
    (tmp_path / RULES).write_text(text.replace(was, now))
    (tmp_path / TESTS).write_text((DEPLOY / TESTS).read_text())
    assert promtool(tmp_path, "test", "rules", TESTS).returncode != 0


def test_every_alert_has_a_test_and_every_number_is_the_products() -> None:
    groups = yaml.safe_load((DEPLOY / RULES).read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    alerts = {rule["alert"]: rule["expr"] for rule in rules if "alert" in rule}
    tested = re.findall(r"alertname: (\w+)", (DEPLOY / TESTS).read_text())
    assert set(alerts) == set(tested)
    fast, slow = sla.ALERTS
    assert alerts["WeftServiceBurnsFast"] == f"weft:service_burn_rate:fast > {fast.burn_rate:g}"
    assert alerts["WeftServiceBurnsSlowly"] == f"weft:service_burn_rate:slow > {slow.burn_rate:g}"
    assert f"< {sla.LITTLE:g} " in alerts["WeftServiceBudgetLow"]
    for name, alert in (("fast", fast), ("slow", slow)):
        (rule,) = (rule for rule in rules if rule.get("record") == f"weft:service_burn_rate:{name}")
        assert set(re.findall(r'span="(\w+)"', rule["expr"])) == {SPANS[alert.long_seconds], SPANS[alert.short_seconds]}
