"""The test cluster's API as its administrator sees it: raw JSON objects by path."""

import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from controlplane.testbed.parts import Layout

Json = dict[str, Any]

WRITERS = 16  # requests in flight when there are many to make
TOKEN_SECONDS = 3600
AGENT = "weft-testbed"  # by which an audit log tells a test's own requests from those of what it tests
TOO_MANY, INITIALIZING_SECONDS = 429, 30.0
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server refused: its HTTP status, reason and message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Api:
    """Requests to one API server, from any thread."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.url = layout.url
        self.ca = layout.ca
        self._http = httpx.Client(
            base_url=layout.url,
            headers={"Authorization": f"Bearer {layout.token}", "User-Agent": AGENT},
            verify=ssl.create_default_context(cafile=str(layout.ca)),
            limits=httpx.Limits(max_connections=2 * WRITERS, max_keepalive_connections=2 * WRITERS),
            timeout=60,
            trust_env=False,
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        token: str | None = None,
        seconds: float = 60.0,
        user: str = "",
        accept: str = "",
    ) -> Json:
        """One request, by default as administrator; the answer's JSON object. Raises ApiError, httpx.TransportError.

        user: a user of this name, whom the administrator impersonates.
        """
        headers = {"Content-Type": content_type} | ({"Authorization": f"Bearer {token}"} if token else {})
        headers |= ({"Impersonate-User": user} if user else {}) | ({"Accept": accept} if accept else {})
        content = None if body is None else json.dumps(body)
        found: Json = self._answer(method, path, content=content, headers=headers, timeout=seconds).json()
        return found

    def watch(self, path: str) -> Iterator[Json]:
        """The events of a watch, until it ends. Raises ApiError, httpx.TransportError."""
        with self._http.stream("GET", path) as answer:
            if answer.is_error:
                raise ApiError(answer.status_code, "", answer.read().decode())
            for line in answer.iter_lines():
                yield json.loads(line)

    def text(self, path: str) -> str:
        """What is at a path that gives no JSON, such as a pod's log. Raises ApiError."""
        return self._answer("GET", path).text

    def patch(self, path: str, change: Json) -> Json:
        """Merge a change into an object; None deletes a field."""
        return self.request("PATCH", path, change, content_type=MERGE)

    def annotate(self, path: str, **annotations: str | None) -> Json:
        """Steer a pod or node by the annotations of stages.yaml: run_for="3", not_ready="true"; None takes one away."""
        named = {f"kwok.weft.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
        return self.patch(path, {"metadata": {"annotations": named}})

    def apply(self, manifests: Iterable[Json]) -> None:
        """Create or change objects, in their order, by server-side apply."""
        for manifest in manifests:
            path = f"{_collection(manifest)}/{manifest['metadata']['name']}?fieldManager=testbed&force=true"
            self.request("PATCH", path, manifest, content_type=APPLY)

    def delete(self, *paths: str) -> None:
        """Delete objects at once, without grace; those that are gone are done."""
        self.each(self._delete, paths)

    def exists(self, path: str) -> bool:
        """Whether there is an object at this path. A kind that the server is just reading anew is asked for again."""
        deadline = time.monotonic() + INITIALIZING_SECONDS
        while True:
            try:
                self.request("GET", path)
            except ApiError as error:
                if error.status == 404:
                    return False
                if error.status != TOO_MANY or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return True

    def is_ready(self) -> bool:
        """Whether the API server answers, and says that it is ready."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def token(self, user: str) -> str:
        """A bearer token: of "admin", or of the service account "namespace/name", through TokenRequest."""
        if user == "admin":
            return self.layout.token
        namespace, _, name = user.partition("/")
        spec = {"expirationSeconds": TOKEN_SECONDS}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = self.request("POST", path, body)["status"]["token"]
        return token

    @staticmethod
    def each(action: Callable[[Any], object], items: Sequence[Any]) -> None:
        """Do the same to many, some at a time."""
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(action, items))

    def _answer(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self._http.request(method, path, **options)
        if answer.is_error:
            try:
                status = answer.json()
            except ValueError:
                status = {}
            raise ApiError(answer.status_code, status.get("reason", ""), status.get("message", answer.text[:500]))
        return answer

    def _delete(self, path: str) -> None:
        try:
            self.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != 404:
                raise


def _collection(manifest: Json) -> str:
    """The path of the collection an object belongs to."""
    version, kind = manifest["apiVersion"], manifest["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    namespace = manifest["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
