"""The presets by name: `demo`, `philly`, `openb`, or a trace file of one's own."""

from pathlib import Path
from typing import cast

from controlplane.simulator import demo, openb, philly, traces
from controlplane.simulator.arrivals import Recorded, Repeated
from controlplane.simulator.demand import Demand
from controlplane.simulator.presets import Pace, Preset, PresetError
from controlplane.simulator.traces import OpenbRow, PhillyRow

DEFAULT_LOAD = 1.2  # a little more than the cluster has, so that people have to share it
PHILLY_FILE = "training/philly/jobs_vc_a.csv.gz"
OPENB_FILE, OPENB_NODES = "openb/pods_default.csv", "openb/nodes_gpu.csv"

# Philly's jobs last hours and arrive minutes apart, and none of them is a service: ten hours of it in a minute.
PHILLY_PACE = Pace(slot=30.0, scale=600.0, net=300.0, account=300.0, speed=600.0)
# openb has two thousand jobs at a time, and a few pods that arrive or leave every second.
OPENB_PACE = Pace(slot=15.0, scale=60.0, net=120.0, account=120.0, speed=30.0)
# Two months at once, which nobody watches: usage rows are by the hour anyway.
REPLAY_PACE = Pace(slot=60.0, scale=3600.0, net=600.0, account=3600.0, speed=600.0)


def load(trace: str = "", *, load: float = DEFAULT_LOAD, seed: int = 0, data: Path) -> Preset:
    """The preset of this name (empty: the demo), or of a trace file; `data` is the folder with the shared traces.

    Raises PresetError with one sentence that names the fix.
    """
    if not 0.1 <= load <= 10:
        raise PresetError(f"LOAD is {load:g}. Use a number from 0.1 to 10; 1.2 offers a fifth more work than fits.")
    if trace in ("", "demo"):
        return demonstration(load, seed)
    if trace == "philly":
        return _philly("philly", _shared(data, PHILLY_FILE, trace), load, seed)
    if trace == "openb":
        return _openb("openb", _shared(data, OPENB_FILE, trace), load, seed, _shared(data, OPENB_NODES, trace))
    return _own(Path(trace).expanduser(), load, seed)


def again(identity: str, data: Path) -> Preset:
    """The preset with this identity, as a database keeps it. Raises PresetError."""
    name, load_text, seed_text = identity.rsplit(" ", 2)
    if name.startswith("replay-"):
        return replay(data, int(name.removeprefix("replay-")))
    return load(name, load=float(load_text.removeprefix("load=")), seed=int(seed_text.removeprefix("seed=")), data=data)


def replay(data: Path, jobs: int) -> Preset:
    """The first `jobs` jobs of the shared Philly file at their own times, from an empty cluster."""
    rows = cast(list[PhillyRow], traces.read(_shared(data, PHILLY_FILE, "philly")))
    first = sorted(rows, key=lambda row: (row.at, row.index))[:jobs]
    return Preset(
        name=f"replay-{jobs}",
        load=1.0,
        seed=0,
        nodes=philly.nodes(),
        pools=(philly.POOL,),
        teams=philly.teams(first),
        quotas=philly.quotas(first),
        arrivals=Recorded(philly.items(first), "philly"),
        pace=REPLAY_PACE,
    )


def demonstration(load: float, seed: int, start: float = demo.OPENING) -> Preset:
    """The built-in demo, from this moment of the cluster's clock on."""
    nodes = demo.nodes()
    return Preset(
        name="demo",
        load=load,
        seed=seed,
        nodes=nodes,
        pools=demo.POOLS,
        teams=demo.TEAMS,
        quotas=demo.quotas(),
        arrivals=Demand(sum(node.gpus for node in nodes), load, seed, start),
        start=start,
    )


def _philly(name: str, path: Path, load: float, seed: int) -> Preset:
    rows = cast(list[PhillyRow], traces.read(path))
    nodes = philly.nodes()
    return Preset(
        name=name,
        load=load,
        seed=seed,
        nodes=nodes,
        pools=(philly.POOL,),
        teams=philly.teams(rows),
        quotas=philly.quotas(rows),
        arrivals=Repeated(philly.items(rows), sum(node.gpus for node in nodes), load, seed, "philly"),
        pace=PHILLY_PACE,
    )


def _openb(name: str, path: Path, load: float, seed: int, machines: Path | None) -> Preset:
    rows = cast(list[OpenbRow], traces.read(path))
    nodes = openb.nodes(traces.read_nodes(machines) if machines else openb.own_machines(rows))
    jobs = openb.jobs(rows)
    return Preset(
        name=name,
        load=load,
        seed=seed,
        nodes=nodes,
        pools=openb.pools(nodes),
        teams=openb.teams(),
        quotas=openb.quotas(nodes, jobs),
        arrivals=Repeated(openb.items(nodes, jobs), sum(node.gpus for node in nodes), load, seed, "openb"),
        pace=OPENB_PACE,
    )


def _own(path: Path, load: float, seed: int) -> Preset:
    rows = traces.read(path)
    if not any(row.gpus for row in rows):
        raise PresetError(f"{path} asks for no GPU in any row. Give at least one row a GPU.")
    name = str(path.resolve())
    if isinstance(rows[0], PhillyRow):
        return _philly(name, path, load, seed)
    return _openb(name, path, load, seed, None)


def _shared(data: Path, file: str, trace: str) -> Path:
    path = data / file
    if not path.is_file():
        raise PresetError(
            f"TRACE={trace} needs {path}, which is not there. Set WEFT_DATA to the folder that holds {file}, or run "
            "without TRACE for the built-in demo."
        )
    return path
