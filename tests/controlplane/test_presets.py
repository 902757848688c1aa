import gzip
from itertools import islice, takewhile
from pathlib import Path

import pytest

from controlplane.jobspec.spec import Spec, parse
from controlplane.simulator.worlds import catalogue, openb, philly, traces
from controlplane.simulator.worlds.presets import START, Preset, PresetError, divide
from gpushare.gpu import WHOLE

PHILLY = """submit_s,duration_s,num_gpus,vc
100,7200,8,6214e9
160,3600,1,11cb48
400,900,4,6214e9
900,5400,16,11cb48
1000,5400,2,Alpha Team
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,8000,30517,1,1000,,BE,Running,0,5000,0
p1,8000,30517,1,1000,,BE,Running,60,4000,60
p2,8000,30517,1,1000,,BE,Running,90000,93000,90000
p3,4000,16384,1,470,T4|P100,LS,Running,200,4200,200
p4,12000,49152,1,1000,,LS,Running,300,9000,300
p5,4000,8192,1,320,,Burstable,Succeeded,400,800000,400
p6,4000,8192,0,0,,BE,Failed,500,900,
"""


def a_file(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def specs(preset: Preset, seconds: float) -> list[Spec]:
    arrivals = takewhile(lambda arrival: arrival.at < preset.start + seconds, preset.arrivals)
    return [parse(document, allow_simulated=True) for arrival in arrivals for document in arrival.documents]


def offered(preset: Preset, seconds: float) -> float:
    """GPU seconds that arrive per second, by what the cluster knows of running times."""
    total = 0.0
    for arrival in preset.arrivals:
        if arrival.at >= START + seconds:
            return total / seconds
        if arrival.at > START:
            for document in arrival.documents:
                spec = parse(document, allow_simulated=True)
                truth = document.get("simulated", {}).get("duration", 0.0)
                total += spec.resources.milli / WHOLE * spec.workers.count * truth
    raise AssertionError("the arrivals ended")


# --- the demo -----------------------------------------------------------------------------------


def test_demo_has_four_teams_two_models_and_at_most_64_nodes() -> None:
    preset = catalogue.load(data=Path("nowhere"))

    assert len(preset.teams) == 4
    assert {pool.gpu_model for pool in preset.pools} == {"A100", "L40S"}
    assert len(preset.nodes) <= 64


def test_demo_quotas_own_every_gpu_once() -> None:
    preset = catalogue.load(data=Path("nowhere"))

    roots = {team.name for team in preset.teams if team.parent is None}  # with what their teams own
    for pool in preset.pools:
        gpus = sum(node.gpus for node in preset.nodes if node.pool == pool.name)
        assert sum(q.nominal for q in preset.quotas if q.pool == pool.name and q.team in roots) == gpus * WHOLE


def test_demo_has_the_three_kinds_a_gang_a_share_and_a_pipeline_in_its_first_two_hours() -> None:
    submitted = specs(catalogue.load(data=Path("nowhere")), 7200)

    assert {str(spec.type) for spec in submitted} == {"training", "notebook", "inference"}
    assert any(spec.workers.count > 1 for spec in submitted)
    assert any(spec.resources.share for spec in submitted)
    assert any(spec.after for spec in submitted)


@pytest.mark.parametrize("name", ["demo", "philly", "openb"])
def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others(name: str, tmp_path: Path) -> None:
    trace = {"demo": "", "philly": str(a_file(tmp_path, PHILLY)), "openb": str(a_file(tmp_path, OPENB, "o.csv"))}[name]

    def first(seed: int) -> list[object]:
        return list(islice(catalogue.load(trace, seed=seed, data=tmp_path).arrivals, 60))

    assert first(3) == first(3)
    assert first(3) != first(4)


@pytest.mark.parametrize("name", ["demo", "philly", "openb"])
def test_arrivals_come_in_order_and_no_name_comes_twice(name: str, tmp_path: Path) -> None:
    trace = {"demo": "", "philly": str(a_file(tmp_path, PHILLY)), "openb": str(a_file(tmp_path, OPENB, "o.csv"))}[name]
    preset = catalogue.load(trace, data=tmp_path)
    arrivals = list(islice(preset.arrivals, 400))

    times = [arrival.at for arrival in arrivals]
    names = [(document["team"], document["name"]) for arrival in arrivals for document in arrival.documents]
    assert times == sorted(times)
    assert times[0] == preset.start
    assert len(set(names)) == len(names)


# --- traces -------------------------------------------------------------------------------------


def test_virtual_clusters_become_teams_that_own_the_cluster(tmp_path: Path) -> None:
    preset = catalogue.load(str(a_file(tmp_path, PHILLY)), data=tmp_path)

    assert [team.name for team in preset.teams] == ["vc-11cb48", "vc-6214e9", "vc-alpha-team"]
    assert sum(quota.nominal for quota in preset.quotas) == 24 * 8 * WHOLE


@pytest.mark.parametrize(
    ("gpus", "workers"),
    [(0, (1, 0)), (1, (1, 1)), (4, (4, 1)), (8, (8, 1)), (12, (2, 6)), (16, (2, 8)), (128, (16, 8))],
)
def test_philly_jobs_become_gangs(gpus: int, workers: tuple[int, int]) -> None:
    assert philly.gang(gpus) == workers


def test_users_of_philly_do_not_know_the_running_time(tmp_path: Path) -> None:
    rows = [traces.PhillyRow(i, i, 1000.0, 1, "a") for i in range(400)]
    believed = [philly.expected_seconds(row.index, row.seconds) for row in rows]
    said = [seconds for seconds in believed if seconds is not None]

    assert 0.05 < believed.count(None) / len(believed) < 0.15
    assert min(said) >= 500 and max(said) <= 4000
    assert len(set(said)) > 300


def test_pods_of_one_shape_become_one_gang_unless_hours_apart(tmp_path: Path) -> None:
    rows = traces.read_rows(a_file(tmp_path, OPENB))
    gathered = openb.jobs([row for row in rows if isinstance(row, traces.OpenbRow)])

    assert [(job.row.index, job.workers) for job in gathered] == [(0, 2), (3, 1), (4, 1), (5, 1), (6, 1), (2, 1)]


def test_quality_of_service_becomes_kind_and_priority(tmp_path: Path) -> None:
    preset = catalogue.load(str(a_file(tmp_path, OPENB)), data=tmp_path)
    found = {spec.name[:9]: (str(spec.type), spec.priority_class) for spec in specs(preset, 86_400)}

    assert found["pod-00000"] == ("training", "low")
    assert found["pod-00003"] == ("inference", "serving")
    assert found["pod-00004"] == ("training", "high")
    assert found["pod-00005"] == ("notebook", "normal")


def test_a_share_of_openb_keeps_its_milli_and_gets_memory_in_proportion(tmp_path: Path) -> None:
    preset = catalogue.load(str(a_file(tmp_path, OPENB)), data=tmp_path)
    share = next(spec.resources.share for spec in specs(preset, 86_400) if spec.name.startswith("pod-00003"))

    assert share is not None
    assert share.guarantee == 470
    assert share.memory == 15 * 1024 * 470 // 1000


def test_a_trace_offers_the_load_it_is_told_to(tmp_path: Path) -> None:
    preset = catalogue.load(str(a_file(tmp_path, PHILLY)), load=1.5, data=tmp_path)

    assert offered(preset, 2_000_000) / preset.gpus == pytest.approx(1.5, rel=0.02)


def test_a_trace_starts_with_a_full_cluster(tmp_path: Path) -> None:
    many = "submit_s,duration_s,num_gpus,vc\n" + "".join(f"{i * 10},{600 + i % 7 * 900},1,a\n" for i in range(500))
    preset = catalogue.load(str(a_file(tmp_path, many)), data=tmp_path)
    warm = list(takewhile(lambda arrival: arrival.at == START, preset.arrivals))

    assert preset.gpus <= len(warm) <= 1.5 * preset.gpus


def test_what_runs_at_the_start_has_only_the_rest_of_its_time_left(tmp_path: Path) -> None:
    one = "submit_s,duration_s,num_gpus,vc\n" + "".join(f"{i * 10},1000,1,a\n" for i in range(500))
    preset = catalogue.load(str(a_file(tmp_path, one)), data=tmp_path)
    left = [a.documents[0]["simulated"]["duration"] for a in islice(preset.arrivals, 192)]

    assert left == sorted(left)  # the oldest comes first
    assert left[0] < 100 < left[-1] <= 1000


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(PHILLY.encode()))

    assert len(traces.read_rows(path)) == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("submit_s,duration_s,vc\n1,2,a\n", "no column num_gpus"),
        ("name,num_gpu\np,1\n", "no column cpu_milli"),
        ("", "no column submit_s"),
        ("submit_s,duration_s,num_gpus,vc\n", "has no rows"),
        ("submit_s,duration_s,num_gpus,vc\n1,2,many,a\n", "line 2: num_gpus is 'many'. Write a number from 0 to 4096."),
        ("submit_s,duration_s,num_gpus,vc\n1,nan,1,a\n", "line 2: duration_s is 'nan'"),
        ("submit_s,duration_s,num_gpus,vc\n1,2,1,\n", "line 2: vc is empty. Name the team."),
        ("submit_s,duration_s,num_gpus,vc\n1,2,1\n", "line 2 has 3 columns, its header 4"),
        ("submit_s,duration_s,num_gpus,vc\n1,2,999,a\n", "Row 1 has num_gpus 999; the cluster has 192. Lower it."),
        ("submit_s,duration_s,num_gpus,vc\n1,2,0,a\n", "asks for no GPU in any row"),
    ],
)
def test_a_bad_file_is_one_sentence_with_the_place_and_the_fix(text: str, says: str, tmp_path: Path) -> None:
    path = a_file(tmp_path, text)

    with pytest.raises(PresetError) as refused:
        catalogue.load(str(path), data=tmp_path)

    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(PresetError, match=r"There is no file .*absent\.csv"):
        catalogue.load(str(tmp_path / "absent.csv"), data=tmp_path)


@pytest.mark.parametrize("load", [0.0, -1.0, 11.0, float("nan")])
def test_an_impossible_load_is_refused(load: float, tmp_path: Path) -> None:
    with pytest.raises(PresetError, match="LOAD is"):
        catalogue.load(load=load, data=tmp_path)


def test_a_world_is_found_again_by_its_identity(tmp_path: Path) -> None:
    preset = catalogue.load(str(a_file(tmp_path, PHILLY, "my trace.csv")), load=0.9, seed=7, data=tmp_path)
    again = catalogue.again(preset.identity, tmp_path)

    assert again.identity == preset.identity
    assert list(islice(again.arrivals, 20)) == list(islice(preset.arrivals, 20))


def test_quotas_divide_every_gpu() -> None:
    assert divide(10, {"a": 1.0, "b": 1.0, "c": 1.0}) == {"a": 4, "b": 3, "c": 3}
    assert divide(7, {"a": 0.9, "b": 0.1}) == {"a": 6, "b": 1}
