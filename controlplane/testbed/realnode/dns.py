"""The names of a cluster's headless Services, out of its EndpointSlices, as a cluster's DNS server has them."""

import contextlib
import socketserver
import struct
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address
from threading import Thread

from controlplane.testbed.api import Api

DOMAIN = "cluster.local"
HEADER = struct.Struct("!6H")  # id, flags, and how many questions, answers, authorities and others follow
A, IN = 1, 1
ANSWER, NO_SUCH_NAME = 0x8180, 0x8183  # flags
NAME_OF_QUESTION = 0xC00C  # a pointer to where the question's name begins

Lookup = Callable[[str], Sequence[str] | None]


@contextlib.contextmanager
def serving(address: str, api: Api) -> Iterator[None]:
    """Answer at port 53 of this address."""

    class Asked(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            question, socket = self.request
            socket.sendto(answer(question, lambda name: endpoints(api, name)), self.client_address)

    with socketserver.ThreadingUDPServer((address, 53), Asked) as server:
        Thread(target=server.serve_forever, name="dns", daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def answer(message: bytes, lookup: Lookup) -> bytes:
    """The answer to a message with one question."""
    number, *_ = HEADER.unpack_from(message)
    labels, at = [], HEADER.size
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode())
        at += 1 + length
    kind, _ = struct.unpack_from("!2H", message, at + 1)
    question = message[HEADER.size : at + 5]
    found = lookup(".".join(labels).lower())
    addresses = [IPv4Address(one).packed for one in found or ()] if kind == A else []
    records = [struct.pack("!3HIH", NAME_OF_QUESTION, A, IN, 0, len(packed)) + packed for packed in addresses]
    header = HEADER.pack(number, NO_SUCH_NAME if found is None else ANSWER, 1, len(records), 0, 0)
    return b"".join([header, question, *records])


def endpoints(api: Api, name: str) -> list[str] | None:
    """The addresses behind `[HOST.]SERVICE.NAMESPACE.svc.cluster.local`; None if there are none of that name."""
    rest, _, is_ours = name.partition(f".svc.{DOMAIN}")
    parts = rest.split(".")
    if not name.endswith(f".svc.{DOMAIN}") or is_ours or len(parts) not in (2, 3):
        return None
    *host, service, namespace = parts
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices = api.request("GET", f"{path}?labelSelector=kubernetes.io/service-name={service}")["items"]
    behind = [one for each in slices for one in each["endpoints"] or () if not host or one.get("hostname") == host[0]]
    return [address for one in behind for address in one["addresses"]] or None
