"""How to reach the API server: the kubeconfig, or the account that a pod is given. TLS is always verified."""

import os
import ssl
import threading
import time
from collections.abc import Mapping
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
    """Address, trust and identity. `headers` are asked for each request, as tokens expire and are renewed."""

    url: str
    tls: ssl.SSLContext | None
    configuration: Any
    server_name: str | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._headers: dict[str, str] = {}
        self._asked_at = -TOKEN_SECONDS

    def headers(self) -> Mapping[str, str]:
        """Who we are. The client reads a token file again when it is due, which costs more than a request."""
        with self._lock:
            now = time.monotonic()
            if now - self._asked_at >= TOKEN_SECONDS:
                self._headers, self._asked_at = self._fresh(), now
            return self._headers

    def _fresh(self) -> dict[str, str]:
        try:
            token = self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        except (OSError, config.ConfigException) as error:
            raise ClusterUnreachable(f"The account's token cannot be read: {error}") from error
        return {"Authorization": token} if token else {}


def find(kubeconfig: str = "") -> Access:
    """The cluster named by `kubeconfig`, else by WEFT_KUBECONFIG or KUBECONFIG, else that of the pod we run in.

    Raises NoClusterError.
    """
    configuration = Configuration()
    loader: Any = config  # the client has no types here
    path = kubeconfig or os.environ.get("WEFT_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    try:
        if path:
            loader.load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
        elif Path(ACCOUNT).exists():
            loader.load_incluster_config(client_configuration=configuration)
        else:
            loader.load_kube_config(client_configuration=configuration, persist_config=False)
    except (config.ConfigException, OSError) as error:
        raise NoClusterError(
            f"CLUSTER=kubernetes needs a cluster: {error}. Set KUBECONFIG to a kubeconfig file, or run in the cluster "
            "with a service account."
        ) from error
    return of(configuration)


def of(configuration: Any) -> Access:
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
    return Access(url, tls, configuration, name)
