"""`manage.py admission` as a process: it answers over TLS, and a renewed certificate is the one that it shows."""

import json
import os
import ssl
import sys
from pathlib import Path

import httpx
import pytest
import trustme
from django.core.management import CommandError, call_command

from controlplane.testbed.processes import free_port, listens, running, wait_until
from tests.servers import ROOT

PATIENCE = 60.0  # s; the file is looked at every ten


def write(authority: trustme.CA, folder: Path) -> None:
    made = authority.issue_cert("127.0.0.1")
    (folder / "new.crt").write_bytes(made.cert_chain_pems[0].bytes())
    (folder / "new.key").write_bytes(made.private_key_pem.bytes())
    os.replace(folder / "new.key", folder / "tls.key")
    os.replace(folder / "new.crt", folder / "tls.crt")


def kubeconfig(folder: Path) -> Path:
    """Of a cluster that is not asked for anything here."""
    path = folder / "kubeconfig"
    cluster = {"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}
    user = {"name": "none", "user": {"token": "none"}}
    context = {"name": "none", "context": {"cluster": "none", "user": "none"}}
    whole = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "none"}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **whole}))
    return path


def shown(port: int) -> str:
    try:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=5)
    except OSError:
        return ""


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    authority, port = trustme.CA(), free_port()
    write(authority, tmp_path)
    files = ["--certificate", str(tmp_path / "tls.crt"), "--key", str(tmp_path / "tls.key")]
    line = [sys.executable, str(ROOT / "manage.py"), "admission", "--host", "127.0.0.1", "--port", str(port), *files]
    env = os.environ | {"KUBECONFIG": str(kubeconfig(tmp_path)), "WEFT_HOME": str(tmp_path)}
    with running(line, log=tmp_path / "log", env=env):
        wait_until(lambda: listens(port), "the server", PATIENCE)
        trusted = ssl.create_default_context()
        authority.configure_trust(trusted)
        assert httpx.get(f"https://127.0.0.1:{port}/healthz", verify=trusted, trust_env=False).text == "ok"
        first = shown(port)
        write(authority, tmp_path)
        wait_until(lambda: shown(port) not in ("", first), "the new certificate", PATIENCE)
        assert shown(port).strip() == (tmp_path / "tls.crt").read_text().strip()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--certificate names .*, and there is no such file"):
        call_command("admission", "--certificate", str(tmp_path / "none"), "--key", str(tmp_path / "none"))
