"""`manage.py up`: all of Weft in one process, on a simulated cluster."""

import os
import signal
import socket
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand

from controlplane.loops import embedded_notify, week
from controlplane.loops.embedded import run
from controlplane.management import home
from controlplane.runtime import tuning, wake
from controlplane.security.bounded import Bounded
from controlplane.services.workloads import arrivals, presets
from controlplane.simulator.worlds import catalogue, pastfile
from controlplane.simulator.worlds.presets import Preset, PresetError

HOST, PORT = "127.0.0.1", 8000
MODEL_NOTE = " (how to run the trace itself: docs/traces.md)"
LONGEST_ANSWER = 2  # seconds that open requests get when we stop
LAST_ROUND = 1.5  # seconds that the round in progress gets; cut short, it is as if it never was


class Command(BaseCommand):
    """Set up what is missing, and serve until Ctrl-C."""

    help = "Run Weft in one process on a simulated cluster, with SQLite."
    requires_system_checks: list[str] = []  # they cost a second, and `make check` runs them

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options; what is not given stays as the database has it."""
        parser.add_argument(
            "--trace", help="philly, openb (the files in WEFT_DATA, else models after them), or a CSV file like them"
        )
        parser.add_argument(
            "--load",
            type=float,
            help="GPU work over the cluster's: the demo's in its busiest hours, a trace's mean (1.2)",
        )
        parser.add_argument("--speed", type=float, help="cluster seconds per second, at most")
        parser.add_argument("--seed", type=int, help="another seed, another day (0)")
        parser.add_argument("--port", type=int, default=PORT)

    def handle(self, *args: Any, **options: Any) -> None:
        """Prepare, say where to look, serve."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
        try:
            claim = home.claim()
            listener = listen(options["port"])
            preset = self._prepare(options)
        except (home.HomeError, PresetError) as error:
            self.stderr.write(str(error))
            sys.exit(2)
        self._serve(preset, listener)
        claim.file.close()

    # --- preparing ----------------------------------------------------------------------------

    def _prepare(self, options: dict[str, Any]) -> Preset:
        if options["speed"] is not None and not 0 < options["speed"] <= 1e6:
            raise PresetError(f"SPEED is {options['speed']:g}. Use a number above 0; 60 makes a minute of a second.")
        self._say("Weft: preparing the database ...")
        settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # looked for at start; files come from the finders
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
        return self._world(options)

    def _world(self, options: dict[str, Any]) -> Preset:
        """The preset that the database has; the first time the one asked for, the demo with its past."""
        world = presets.loaded()
        if world is None:
            preset = chosen(options)
            size = f"{len(preset.nodes)} nodes, {preset.gpus} GPUs"
            self._say(f"Weft: loading {catalogue.told(preset.name)}: {size} ...")
            speed = options["speed"] or preset.pace.speed
            if preset.name == "demo":
                tuning.collect_less_often()  # there are two million values in a second or two, and none is garbage
                past = pastfile.read_past(pastfile.DEMO.read_bytes())
                week.open_demo(preset, past, password=home.password(), speed=speed)
            else:
                presets.load(preset=preset, password=home.password(), speed=speed)
            return preset
        require_same(world.preset, options)
        if options["speed"] is not None:
            presets.set_pace(speed=options["speed"])
        return catalogue.again(world.preset, settings.WEFT_DATA)

    # --- serving ------------------------------------------------------------------------------

    def _serve(self, preset: Preset, listener: socket.socket) -> None:
        stop = threading.Event()
        loops = threading.Thread(target=run, args=(preset, stop), name="loops", daemon=True)
        greeting = self._greeting(preset, listener)  # asks the database, which the server's thread may not

        def ready() -> None:
            self._say(greeting)
            loops.start()
            embedded_notify.start(stop)

        server = Server(
            uvicorn.Config(
                "controlplane.asgi:application",
                http=Bounded,
                log_level="warning",
                access_log=False,
                # Nothing is in front of it, unless somebody says so: who asks says nothing about the own address.
                proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
                lifespan="off",
                timeout_graceful_shutdown=LONGEST_ANSWER,
            ),
            ready=ready,
        )
        server.run(sockets=[listener])
        stop.set()
        wake.bell.ring()
        embedded_notify.ring()
        loops.join(LAST_ROUND)
        self._say("Weft: stopped. `make up` goes on from here.")
        if loops.is_alive():
            # Like any crash it loses nothing, and waiting for a long round would keep the user waiting.
            sys.stdout.flush()
            os._exit(0)

    def _greeting(self, preset: Preset, listener: socket.socket) -> str:
        address = f"http://{HOST}:{listener.getsockname()[1]}"
        users = ", ".join([presets.ADMIN, *presets.PEOPLE])
        speed = arrivals.pace()[0]
        size = f"{len(preset.nodes)} nodes, {preset.gpus} GPUs"
        return f"""
Weft runs at   {address}   (Ctrl-C stops it)

  simulated    {preset.identity}: {size}, at most {speed:g} times as fast as real time
  work         {catalogue.told(preset.name)}{MODEL_NOTE if preset.name.endswith(catalogue.MODEL) else ""}
  sign in      {users} (admin, team admin, member, viewer); password of all: {home.password()}
  CLI          .venv/bin/weft login {address} --username mel
  data         {settings.DATA_DIR}
  start afresh make reset
"""

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


class Server(uvicorn.Server):
    """uvicorn, told to end open streams when it stops, and to end without raising the signal again."""

    def __init__(self, config: uvicorn.Config, ready: Any) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; the second time without waiting for open requests."""
        wake.stopping.set()
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Our signals end this server and nothing else: uvicorn would raise them again when it is done."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(port: int) -> socket.socket:
    """Take the port. Raises HomeError if it is taken."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError):
        raise home.HomeError(
            f"Port {port} is taken. Stop what listens there, or choose another one: make up PORT={port % 60_000 + 1}."
        ) from None
    return listener


def chosen(options: dict[str, Any]) -> Preset:
    """The preset that the options name. Raises PresetError."""
    load = catalogue.DEFAULT_LOAD if options["load"] is None else options["load"]
    return catalogue.load(options["trace"] or "", load=load, seed=options["seed"] or 0, data=settings.WEFT_DATA)


def require_same(identity: str, options: dict[str, Any]) -> None:
    """Raise PresetError if the options name another world than the database's."""
    name, load, seed = identity.rsplit(" ", 2)
    wanted = name if options["trace"] is None else catalogue.named(options["trace"], settings.WEFT_DATA)
    asked = [
        wanted != name,
        options["load"] is not None and f"load={options['load']:g}" != load,
        options["seed"] is not None and f"seed={options['seed']}" != seed,
    ]
    if any(asked):
        means = f" TRACE={options['trace']} means {catalogue.told(wanted)} here." if wanted != name else ""
        raise PresetError(
            f"The data in {settings.DATA_DIR} belong to another world ({identity}: {catalogue.told(name)}).{means} "
            "Delete them with `make reset`, or run `make up` without TRACE, LOAD and seed to go on with it."
        )


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(0)
