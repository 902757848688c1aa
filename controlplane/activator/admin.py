"""What an activator says of itself, on a port of its own: health, the signal of each second, metrics."""

import socket

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from controlplane.activator import counts
from controlplane.activator.site import Site


class _Families(Collector):
    def __init__(self, site: Site) -> None:
        self._site = site

    def collect(self):  # type: ignore[no-untyped-def]
        return counts.families(self._site.counted)


async def serve(site: Site, listener: socket.socket) -> web.AppRunner:
    """Serve until the runner is cleaned up."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(site))

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        if site.is_draining:
            return web.Response(status=503, text="It is about to end.")
        if not site.is_ready:
            return web.Response(status=503, text="The services are not known yet.")
        return web.Response(text="ok")

    async def signal(_: web.Request) -> web.Response:
        return web.json_response(site.signal())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([
        web.get("/healthz", healthz), web.get("/readyz", readyz),
        web.get("/signal", signal), web.get("/metrics", metrics),
    ])  # fmt: skip
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner
