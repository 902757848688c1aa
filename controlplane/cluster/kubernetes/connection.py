"""How to reach the API server: the kubeconfig, or the account that a pod is given. TLS is always verified."""

import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import Configuration

from controlplane.cluster.port import ClusterUnreachable

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
TOKEN_SECONDS = 10.0  # between two looks at the token


class NoClusterError(Exception):
    """There is nothing that says where the cluster is, or it cannot be trusted."""


@dataclass
class Access:
    """Address, trust and identity. `headers` are asked for each request, as tokens expire and are renewed.

    token_file: that of a kubeconfig; the client would read it only once.
    """

    url: str
    tls: ssl.SSLContext | None
    configuration: Any
    server_name: str | None = None
    token_file: Path | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._headers: dict[str, str] = {}
        self._asked_at = float("-inf")

    def headers(self) -> Mapping[str, str]:
        """Our account's token, read again when it is due: that costs more than a request. Raises ClusterUnreachable."""
        with self._lock:
            now = self.clock()
            if now - self._asked_at >= TOKEN_SECONDS:
                self._headers, self._asked_at = self._fresh(), now
            return self._headers

    def _fresh(self) -> dict[str, str]:
        try:
            token = _bearer(self.token_file) if self.token_file else self._of_client()
        except (OSError, ValueError, config.ConfigException) as error:
            raise ClusterUnreachable(f"The account's token cannot be read: {error}") from error
        return {"Authorization": token.strip()} if token else {}

    def _of_client(self) -> str | None:
        found: str | None = self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return found


def find(kubeconfig: str = "") -> Access:
    """The cluster named by `kubeconfig`, else by WEFT_KUBECONFIG or KUBECONFIG, else that of the pod we run in.

    Raises NoClusterError.
    """
    configuration = Configuration()
    loader: Any = config  # the client has no types here
    path = kubeconfig or os.environ.get("WEFT_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    token_file = None
    try:
        if path or not Path(ACCOUNT).exists():
            path = path or loader.kube_config.KUBE_CONFIG_DEFAULT_LOCATION
            loader.load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
            token_file = _token_file(path)
        else:
            loader.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise NoClusterError(
            f"CLUSTER=kubernetes needs a cluster: {error}. Set KUBECONFIG to a kubeconfig file, or run in the cluster "
            "with a service account."
        ) from error
    return of(configuration, token_file)


def _token_file(path: str) -> Path | None:
    """The `tokenFile` of the current context's user, if the account is given by it."""
    loader: Any = config
    known = loader.kube_config.KubeConfigMerger(path).config  # KUBECONFIG may name several files
    context = known["contexts"].get_with_name(known["current-context"])["context"]
    if not context.safe_get("user"):
        return None
    entry = known["users"].get_with_name(context["user"])
    user = entry.safe_get("user") or {}
    named = user.get("tokenFile")
    if not named or user.get("token") or user.get("auth-provider"):
        return None  # the client's order: these go first
    return Path(str(entry.path)).absolute().parent / str(named)


def of(configuration: Any, token_file: Path | None = None) -> Access:
    """Access by the client's configuration. Raises NoClusterError when it asks not to verify the server."""
    url = configuration.host.rstrip("/")
    if not configuration.verify_ssl:
        raise NoClusterError("The kubeconfig says insecure-skip-tls-verify. Give certificate-authority instead.")
    tls = None
    if url.startswith("https://"):
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    name = getattr(configuration, "tls_server_name", None)
    return Access(url, tls, configuration, name, token_file)


def _bearer(path: Path) -> str:
    token = path.read_text().strip()
    if not token:
        raise ValueError(f"{path} is empty.")
    return f"Bearer {token}"
