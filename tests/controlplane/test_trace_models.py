"""The models after Philly and openb: what runs where the trace files are absent, and how near they come to these."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.management.commands.derive_models import derived
from controlplane.management.commands.up import require_same
from controlplane.simulator.worlds import catalogue, crowds, deriving, openb, tracemodels
from controlplane.simulator.worlds import traces as files
from controlplane.simulator.worlds.presets import START, PresetError
from controlplane.simulator.worlds.traces import NodeRow, OpenbRow, PhillyRow
from tests import traces

SEEDS = range(3)
HEADERS = {
    catalogue.PHILLY_FILE: "submit_s,duration_s,num_gpus,vc\n0,60,1,a\n",
    catalogue.OPENB_FILE: "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"
    "p,1000,1024,1,1000,,LS,0,60\n",
    catalogue.OPENB_NODES: "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,8,T4\n",
}


def put(folder: Path, *names: str) -> Path:
    """Small trace files where the real ones would be."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(HEADERS[name].encode())
    return folder


@pytest.fixture(scope="module")
def jobs() -> list[PhillyRow]:
    return cast(list[PhillyRow], files.read_rows(traces.needed("philly") / catalogue.PHILLY_FILE))


@pytest.fixture(scope="module")
def pods() -> list[OpenbRow]:
    return cast(list[OpenbRow], files.read_rows(traces.needed("openb") / catalogue.OPENB_FILE))


@pytest.fixture(scope="module")
def machines() -> list[NodeRow]:
    return files.read_nodes(traces.needed("openb") / catalogue.OPENB_NODES)


# --- which one runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["philly", "openb"])
def test_without_its_files_a_trace_is_the_model_after_it(name: str, tmp_path: Path) -> None:
    preset = catalogue.load(name, data=tmp_path)
    warm = list(takewhile(lambda arrival: arrival.at == START, preset.arrivals))

    assert preset.identity == f"{name}-model load=1.2 seed=0"
    assert catalogue.told(preset.name) == f"model after {catalogue.AFTER[name]}"
    assert len(warm) > 20
    assert list(islice(preset.arrivals, 50)) == list(islice(catalogue.load(name, data=tmp_path).arrivals, 50))
    assert list(islice(preset.arrivals, 50)) != list(islice(catalogue.load(name, seed=1, data=tmp_path).arrivals, 50))


@pytest.mark.parametrize("name", ["philly-model", "openb-model"])
def test_a_model_can_be_asked_for_by_name_where_the_files_are(name: str, tmp_path: Path) -> None:
    put(tmp_path, catalogue.OPENB_FILE, catalogue.OPENB_NODES, catalogue.PHILLY_FILE)

    assert catalogue.load(name, data=tmp_path).name == name


def test_the_files_are_used_when_all_of_them_are_there(tmp_path: Path) -> None:
    put(tmp_path, catalogue.OPENB_FILE)
    assert catalogue.load("openb", data=tmp_path).name == "openb-model"

    put(tmp_path, catalogue.OPENB_NODES)
    preset = catalogue.load("openb", data=tmp_path)
    assert (preset.name, len(preset.nodes)) == ("openb", 1)
    assert catalogue.told(preset.name) == "trace file pods_default.csv"


def test_a_world_begun_with_the_file_is_not_gone_on_with_as_the_model(tmp_path: Path) -> None:
    identity = catalogue.load("openb", data=put(tmp_path, catalogue.OPENB_FILE, catalogue.OPENB_NODES)).identity

    with pytest.raises(PresetError, match=r"no trace file .*pods_default.csv. Set WEFT_DATA .*make reset"):
        catalogue.again(identity, tmp_path / "empty")


def test_a_world_begun_with_the_model_goes_on_as_the_model_where_the_files_have_come(tmp_path: Path) -> None:
    identity = catalogue.load("openb", seed=3, data=tmp_path).identity
    put(tmp_path, catalogue.OPENB_FILE, catalogue.OPENB_NODES)

    assert catalogue.again(identity, tmp_path).identity == identity == "openb-model load=1.2 seed=3"


@pytest.mark.parametrize(
    ("identity", "has_files", "says"),
    [
        ("openb-model load=1.2 seed=0", True, "TRACE=openb means trace file pods_default.csv here"),
        ("openb load=1.2 seed=0", False, "TRACE=openb means model after Alibaba's openb here"),
        ("openb-model load=1.2 seed=0", False, ""),
        ("openb load=1.2 seed=0", True, ""),
    ],
)
def test_up_refuses_a_database_begun_with_the_other(
    identity: str, has_files: bool, says: str, tmp_path: Path, settings: pytest.FixtureRequest
) -> None:
    settings.WEFT_DATA = put(tmp_path, *(HEADERS if has_files else ()))  # type: ignore[attr-defined]
    options = {"trace": "openb", "load": None, "seed": None}
    if not says:
        require_same(identity, options)
        return
    with pytest.raises(PresetError, match="belong to another world") as refused:
        require_same(identity, options)
    assert says in str(refused.value)


def test_a_trace_of_ones_own_is_told_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "my trace.csv"
    path.write_text(HEADERS[catalogue.PHILLY_FILE])
    preset = catalogue.load(str(path), data=tmp_path)

    assert catalogue.told(catalogue.name_of(preset.identity)) == "trace file my trace.csv"


# --- statistics in and out ----------------------------------------------------------------------

_values = st.lists(st.floats(1, 1e6), min_size=1, max_size=400).map(np.array)


@given(_values)
@settings(max_examples=60, deadline=None)
def test_no_number_of_a_curve_is_about_fewer_values_than_ten(values: crowds.Floats) -> None:
    made = crowds.curve_of(values)
    counts = [round((end - begin) * len(values)) for (begin, _), (end, _) in pairwise([[0.0, 0.0], *made])]

    assert made[-1][0] == 1
    assert all(count >= crowds.MIN - 1 for count in counts) or len(made) == 1  # shares are rounded
    assert [mean for _, mean in made] == sorted(mean for _, mean in made)


@given(st.integers(1, 300), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_as_many_jobs_are_drawn_as_asked_for(count: int, seed: int) -> None:
    kind = crowds.Class(
        1000, 200, 0.5, [[0.9, 2], [1, 40]], [[1, 60]], [[0.5, 2], [1, 9]], [[0.5, 9], [1, 800]], [[1, 5]], [[1, 30]]
    )
    rhythm = crowds.Rhythm([1 / 24] * 24, [1 / 7] * 7)
    at, seconds = crowds.drawn(kind, count, rhythm, np.random.default_rng(seed))

    assert len(at) == len(seconds) == count
    assert at.min() >= 2 * crowds.DAY
    assert seconds.min() >= 1


def test_what_is_drawn_has_the_statistics_that_it_was_drawn_from() -> None:
    rng = np.random.default_rng(7)
    begins = np.sort(rng.uniform(0, 300 * crowds.DAY, 400))
    of = np.repeat(np.arange(400), rng.geometric(0.2, 400))
    at = begins[of] + np.concatenate([np.arange(n) * 30.0 for n in np.bincount(of)])
    ran = np.exp(rng.normal(6, 1, 400)[of] + rng.normal(0, 0.5, len(of)))
    order = np.argsort(at)
    before = crowds.class_of([(at[order], ran[order])], deriving.GAP)
    drawn_at, drawn_ran = crowds.drawn(before, len(at), crowds.rhythm_of(begins), np.random.default_rng(8))
    order = np.argsort(drawn_at)
    after = crowds.class_of([(drawn_at[order], drawn_ran[order])], deriving.GAP)

    assert after.crowds == pytest.approx(before.crowds, rel=0.1)
    assert after.alike == pytest.approx(before.alike, abs=0.12)
    assert drawn_ran.mean() == pytest.approx(ran.mean(), rel=0.03)


def test_the_tables_say_whom_they_are_after_and_hold_no_virtual_cluster_of_the_trace() -> None:
    for name in catalogue.FILES:
        assert tracemodels.read_table(name)["about"].startswith("After the published statistics of")
    assert {stream["vc"] for stream in tracemodels.read_table("philly")["streams"]} == set("abcdefgh")


# --- how near the models come to the trace files ------------------------------------------------


def test_the_tables_are_what_the_command_makes_of_the_files(jobs: list[PhillyRow], machines: list[NodeRow]) -> None:
    for name, text in derived(traces.DATA).items():
        assert (Path(tracemodels.tables.__path__[0]) / f"{name}.json").read_text() == text


def quantiles(seconds: Sequence[float]) -> crowds.Floats:
    return cast(crowds.Floats, np.quantile(seconds, [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]))


def parts(rows: Sequence[PhillyRow], key: Callable[[PhillyRow], object]) -> dict[object, float]:
    """The part of all GPU time that each key has."""
    found: Counter[object] = Counter()
    for row in rows:
        found[key(row)] += row.gpus * row.seconds  # type: ignore[assignment]
    return {name: value / found.total() for name, value in found.items()}


def crowd_hours(kinds: dict[object, list[float]]) -> crowds.Floats:
    """The share of crowds that begin in each hour of the day."""
    begins = []
    for times in kinds.values():
        at = np.sort(np.array(times))
        begins.append(at[np.unique(crowds.crowds_of(at, deriving.GAP), return_index=True)[1]])
    return np.array(crowds.rhythm_of(np.concatenate(begins)).hours)


def times_of(rows: Sequence[PhillyRow | OpenbRow], key: Callable[..., object]) -> dict[object, list[float]]:
    found: dict[object, list[float]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row.at)
    return found


def followers(kinds: dict[object, list[float]]) -> float:
    """The part of all jobs that come within a quarter of an hour after one of their kind."""
    all_ = [np.diff(np.sort(times)) <= deriving.GAP for times in kinds.values()]
    return float(sum(one.sum() for one in all_) / sum(map(len, kinds.values())))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_after_philly_is_near_its_file(seed: int, jobs: list[PhillyRow]) -> None:
    model = tracemodels.philly(seed)

    def kind(row: PhillyRow) -> object:
        return row.vc, row.gpus

    assert Counter(row.gpus for row in model) == Counter(row.gpus for row in jobs)  # counted in the table
    sizes, real_sizes = parts(model, lambda row: row.gpus), parts(jobs, lambda row: row.gpus)
    assert all(abs(sizes[size] - real_sizes[size]) < 0.01 for size in real_sizes)
    teams, real_teams = (sorted(parts(rows, lambda row: row.vc).values()) for rows in (model, jobs))
    # What a virtual cluster seldom asks for runs as long as such jobs of all of them do.
    assert teams == pytest.approx(real_teams, abs=0.02)
    # A curve is level beyond the middles of its first and last slice, and the logarithm is interpolated.
    assert sum(r.gpus * r.seconds for r in model) == pytest.approx(sum(r.gpus * r.seconds for r in jobs), rel=0.03)
    assert quantiles([row.seconds for row in model]) == pytest.approx(
        quantiles([row.seconds for row in jobs]), rel=0.12
    )
    # Of about 4,500 crowds a twenty-fourth is drawn with a standard error of 0.3 points; the largest of 24 counts.
    hours, real_hours = crowd_hours(times_of(model, kind)), crowd_hours(times_of(jobs, kind))
    assert np.abs(hours - real_hours).max() < 0.015
    assert followers(times_of(model, kind)) == pytest.approx(followers(times_of(jobs, kind)), abs=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_after_openb_is_near_its_file(seed: int, pods: list[OpenbRow]) -> None:
    model = tracemodels.openb(seed)

    def kind(row: OpenbRow) -> object:
        return row.cpu_milli, row.memory, row.milli, row.gpus, row.qos

    assert Counter(row.gpus for row in model) == Counter(row.gpus for row in pods)  # counted in the table
    asked, real_asked = (sum(row.gpus * row.milli for row in rows) for rows in (model, pods))
    # One pod in sixteen has the median shape of its like instead of its own.
    assert asked == pytest.approx(real_asked, rel=0.005)
    for ask in ("cpu_milli", "memory"):
        mine, real = (sum(getattr(row, ask) for row in rows) for rows in (model, pods))
        assert mine == pytest.approx(real, rel=0.05)
    qos, real_qos = (Counter(row.qos for row in rows) for rows in (model, pods))
    assert all(abs(qos[name] - real_qos[name]) < 0.005 * len(pods) for name in real_qos)
    # The world leaves out the first hundredth, which comes months before the rest, and cuts running times to a day.
    late = sorted(pods, key=lambda row: row.at)[len(pods) // 100 :]
    seconds, real_seconds = ([min(row.seconds, openb.DAY) for row in rows] for rows in (model, late))
    assert quantiles(seconds) == pytest.approx(quantiles(real_seconds), rel=0.18)
    assert np.mean(seconds) == pytest.approx(np.mean(real_seconds), rel=0.02)
    hours, real_hours = crowd_hours(times_of(model, kind)), crowd_hours(times_of(late, kind))
    assert np.abs(hours - real_hours).max() < 0.015


@pytest.mark.parametrize("seed", SEEDS)
def test_the_pods_of_the_model_become_such_gangs_as_those_of_the_file(seed: int, pods: list[OpenbRow]) -> None:
    gangs, real_gangs = openb.jobs(tracemodels.openb(seed)), openb.jobs(pods)

    assert len(gangs) == pytest.approx(len(real_gangs), rel=0.1)
    sizes, real_sizes = (
        np.quantile([job.workers for job in some], [0.25, 0.5, 0.75, 0.9]) for some in (gangs, real_gangs)
    )
    assert sizes == pytest.approx(real_sizes, abs=2)


def test_the_machines_of_the_model_are_those_of_the_file_in_another_order(machines: list[NodeRow]) -> None:
    def kind(machine: NodeRow) -> object:
        return machine.model, machine.gpus, machine.cpu_milli, machine.memory

    assert Counter(map(kind, tracemodels.machines())) == Counter(map(kind, machines))
    assert sum(machine.gpus for machine in tracemodels.machines()) == 6212
