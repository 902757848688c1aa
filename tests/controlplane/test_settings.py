"""What a start in production refuses: weak or missing secrets, any host. Each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT

STRONG = "0123456789abcdef" * 4
PRODUCTION = {"DATABASE_URL": "postgres://weft@127.0.0.1:1/weft", "ALLOWED_HOSTS": "weft.example"}


def started(home: Path, **env: str) -> subprocess.CompletedProcess[str]:
    code = "import controlplane.settings as s; print(s.DEBUG, s.SESSION_COOKIE_SECURE, s.SECURE_HSTS_SECONDS > 0)"
    whole = {"PATH": "/usr/bin:/bin", "WEFT_HOME": str(home), **env}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=whole, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "SECRET_KEY is not set."),
        ({"SECRET_KEY": "short"}, "SECRET_KEY is weak: it has 5 characters"),
        ({"SECRET_KEY": "x" * 64}, "1 of them different"),
        ({"SECRET_KEY": STRONG, "ALLOWED_HOSTS": "*"}, "ALLOWED_HOSTS is *"),
    ],
)
def test_a_weak_start_is_refused_with_the_mend(tmp_path: Path, wrong: dict[str, str], said: str) -> None:
    done = started(tmp_path, **(PRODUCTION | wrong))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_providers_secret_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the client")
    code = "import controlplane.settings as s; print(s.SOCIALACCOUNT_PROVIDERS['openid_connect']['APPS'][0]['secret'])"
    env = {"PATH": "/usr/bin:/bin", "WEFT_HOME": str(tmp_path), "WEFT_OIDC_ISSUER": "https://id.example"}
    env["WEFT_OIDC_CLIENT_SECRET_FILE"] = str(tmp_path / "secret")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "of the client", done.stderr


def test_production_is_without_debug_whatever_the_environment_says(tmp_path: Path) -> None:
    done = started(tmp_path, **PRODUCTION, SECRET_KEY=STRONG, DEBUG="true")
    assert (done.returncode, done.stdout.strip()) == (0, "False True True"), done.stderr


@pytest.mark.parametrize("wrong", ["6", "3651", "30.5", ""])
def test_days_that_nothing_can_be_kept_for_are_refused_by_name_and_bounds(tmp_path: Path, wrong: str) -> None:
    done = started(tmp_path, **PRODUCTION, SECRET_KEY=STRONG, WEFT_KEEP_EVENTS_DAYS=wrong)
    assert done.returncode == 1
    assert f"WEFT_KEEP_EVENTS_DAYS is {wrong!r}. Set it to whole days, 7 to 3650" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("env", "is_loaded"), [({}, False), (PRODUCTION | {"SECRET_KEY": STRONG}, True)])
def test_only_production_loads_celery_at_its_start(tmp_path: Path, env: dict[str, str], is_loaded: bool) -> None:
    code = "import django, sys; django.setup(); print('celery' in sys.modules)"
    whole = {"PATH": "/usr/bin:/bin", "WEFT_HOME": str(tmp_path), "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=whole | env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(is_loaded), done.stderr
