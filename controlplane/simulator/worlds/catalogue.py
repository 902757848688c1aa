"""The presets by name: `demo`, `notebooks`, `philly`, `openb`, or a trace file of one's own.

`philly` and `openb` are the shared trace files where these are, else the models after them (`tracemodels.py`), whose
worlds are called `philly-model` and `openb-model`. A database keeps that name, and is not gone on with as the other.
"""

from pathlib import Path
from typing import cast

from controlplane.simulator.worlds import demo, notebooks, openb, philly, tracemodels, traces
from controlplane.simulator.worlds.arrivals import Recorded, Repeated
from controlplane.simulator.worlds.demand import Demand
from controlplane.simulator.worlds.presets import Pace, Preset, PresetError
from controlplane.simulator.worlds.traces import NodeRow, OpenbRow, PhillyRow

DEFAULT_LOAD = 1.2  # a little more than the cluster has, so that people have to share it
PHILLY_FILE = "training/philly/jobs_vc_a.csv.gz"
OPENB_FILE, OPENB_NODES = "openb/pods_default.csv", "openb/nodes_gpu.csv"
FILES = {"philly": (PHILLY_FILE,), "openb": (OPENB_FILE, OPENB_NODES)}
AFTER = {"philly": "Microsoft's Philly", "openb": "Alibaba's openb"}
MODEL = "-model"
BEGUN = ", as this world was begun with it, or begin another: `make reset` deletes this one"
NAMES = ("demo", "notebooks", *FILES, *(name + MODEL for name in FILES))

# Philly's jobs last hours and arrive minutes apart, and none of them is a service: ten hours of it in a minute.
PHILLY_PACE = Pace(slot=30.0, scale=600.0, net=300.0, account=300.0, speed=600.0)
# openb has two thousand jobs at a time, and a few pods that arrive or leave every second.
OPENB_PACE = Pace(slot=15.0, scale=60.0, net=120.0, account=120.0, speed=30.0)
# Two months at once, which no user watches: usage rows are by the hour anyway.
REPLAY_PACE = Pace(slot=60.0, scale=3600.0, net=600.0, account=3600.0, speed=600.0)


def load(trace: str = "", *, load: float = DEFAULT_LOAD, seed: int = 0, data: Path) -> Preset:
    """The preset of this name (empty: the demo), or of a trace file; `data` is the folder with the shared traces.

    Raises PresetError with one sentence that names the fix.
    """
    if not 0.1 <= load <= 10:
        raise PresetError(f"LOAD is {load:g}. Use a number from 0.1 to 10; 1.2 offers a fifth more work than fits.")
    name = named(trace, data)
    if name == "demo":
        return demonstration(load, seed)
    if name in NAMES:
        return _exactly(name, load, seed, data)
    return _own(Path(trace).expanduser(), load, seed)


def named(trace: str, data: Path) -> str:
    """The name of the world that this trace means here: `philly` is the trace file, or the model if that is absent."""
    if trace in FILES and not all((data / file).is_file() for file in FILES[trace]):
        return trace + MODEL
    return trace if trace in NAMES else str(Path(trace).expanduser().resolve()) if trace else "demo"


def again(identity: str, data: Path) -> Preset:
    """The preset with this identity, as a database keeps it: never a model for a file. Raises PresetError."""
    name, load_text, seed_text = identity.rsplit(" ", 2)
    if name.startswith("replay-"):
        return replay(data, int(name.removeprefix("replay-")))
    chosen, seed = float(load_text.removeprefix("load=")), int(seed_text.removeprefix("seed="))
    return _exactly(name, chosen, seed, data) if name in FILES else load(name, load=chosen, seed=seed, data=data)


def told(name: str) -> str:
    """What the world of this name runs, in a few words: for pages and the terminal."""
    if name.startswith("replay-"):
        return f"trace file {Path(PHILLY_FILE).name}"
    if name in FILES:
        return f"trace file {Path(FILES[name][0]).name}"
    after = AFTER.get(name.removesuffix(MODEL))
    if after:
        return f"model after {after}"
    return f"trace file {Path(name).name}" if Path(name).is_absolute() else name


def name_of(identity: str) -> str:
    """The name in an identity, without load and seed."""
    return identity.rsplit(" ", 2)[0]


def openb_machines(data: Path) -> tuple[list[NodeRow], str]:
    """The machines of openb, and what they are from: its list where that is, else the model. Raises PresetError."""
    path = data / OPENB_NODES
    if path.is_file():
        return traces.read_nodes(path), f"trace file {path.name}"
    return tracemodels.machines(), told(f"openb{MODEL}")


def replay(data: Path, jobs: int) -> Preset:
    """The first `jobs` jobs of the shared Philly file at their own times, from an empty cluster."""
    rows = _read_philly(_shared(data, PHILLY_FILE, ""))
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


def _exactly(name: str, load: float, seed: int, data: Path) -> Preset:
    """The world of this very name: a trace from its files, or the model after it."""
    match name:
        case "notebooks":
            parts = notebooks.nodes(), (notebooks.POOL,), notebooks.TEAMS, notebooks.quotas(), notebooks.Opened()
            return Preset(name, load, seed, *parts)
        case "philly":
            return _philly(name, _read_philly(_shared(data, PHILLY_FILE, BEGUN)), load, seed)
        case "openb":
            rows = cast(list[OpenbRow], traces.read_rows(_shared(data, OPENB_FILE, BEGUN)))
            return _openb(name, rows, load, seed, traces.read_nodes(_shared(data, OPENB_NODES, BEGUN)))
        case "philly-model":
            return _philly(name, tracemodels.philly(seed), load, seed)
        case _:
            return _openb(name, tracemodels.openb(seed), load, seed, tracemodels.machines())


def _philly(name: str, rows: list[PhillyRow], load: float, seed: int) -> Preset:
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


def _openb(name: str, rows: list[OpenbRow], load: float, seed: int, machines: list[NodeRow]) -> Preset:
    nodes = openb.nodes(machines)
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
    rows = traces.read_rows(path)
    if not any(row.gpus for row in rows):
        raise PresetError(f"{path} asks for no GPU in any row. Give at least one row a GPU.")
    if isinstance(rows[0], PhillyRow):
        return _philly(str(path.resolve()), rows, load, seed)
    return _openb(str(path.resolve()), rows, load, seed, openb.own_machines(rows))


def _read_philly(path: Path) -> list[PhillyRow]:
    return cast(list[PhillyRow], traces.read_rows(path))


def _shared(data: Path, file: str, fix: str) -> Path:
    path = data / file
    if not path.is_file():
        raise PresetError(f"There is no trace file {path}. Set WEFT_DATA to the folder that holds {file}{fix}.")
    return path
