"""The policy as versions: checked per field, compared, never changed in place."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.domain.policy import Policy, PolicyError, difference, problems
from controlplane.domain.policyfields import known_fields
from controlplane.loops import schedule
from controlplane.models import Event, PolicyVersion
from controlplane.queries.audit.audit import violations
from controlplane.queries.scheduling import policies
from controlplane.services.errors import Refused
from controlplane.services.scheduling import policy
from scheduler.model.mention import mention
from scheduler.model.settings import Settings
from tests.controlplane.state import World, phase


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"scheduling": {"ageing_seconds": 0}}, "scheduling.ageing_seconds is 0. Use a number from 1 to 604800 s."),
        ({"scheduling": {"max_victims": 2.5}}, "scheduling.max_victims is 2.5. Use a whole number."),
        ({"scheduling": {"max_victims": True}}, "scheduling.max_victims is True. Use a number from 1 to 10000 scen"),
        ({"scheduling": {"ageing": 1}}, "scheduling.ageing is not a setting. The settings are policy, ageing_seconds"),
        ({"scheduling": 3}, "scheduling is 3. Give an object of settings."),
        ({"pods": {}}, "pods is not part of a policy. Its parts are scheduling, scaling."),
        ({"scheduling": {"policy": "fair"}}, "scheduling.policy is 'fair'. Use one of weft, fifo, best-fit, fgd,"),
        ({"scheduling": {"policy": "native-k8s"}}, "is for comparison in what-if only. Use one of weft, fifo"),
    ],
)
def test_a_bad_setting_is_named_with_what_to_write(data: dict[str, object], sentence: str) -> None:
    with pytest.raises(PolicyError) as wrong:
        Policy.from_dict(data, in_force=True)
    assert sentence in str(wrong.value)


def test_all_faults_are_told_at_once() -> None:
    data = {"scheduling": {"ageing_seconds": -1, "max_victims": "x"}, "scaling": {"fall_seconds": -2}}
    assert list(problems(data)) == ["scheduling.ageing_seconds", "scheduling.max_victims", "scaling.fall_seconds"]


def test_every_default_is_within_its_bounds_and_every_setting_says_what_it_does() -> None:
    assert problems(Policy().to_dict(), in_force=True) == {}
    assert Policy.from_dict(json.loads(json.dumps(Policy().to_dict()))) == Policy()
    assert len({f.path for f in known_fields()}) == len(known_fields())


def test_a_comparison_may_use_the_policies_that_production_may_not() -> None:
    assert Policy.from_dict({"scheduling": {"policy": "native-k8s"}}).scheduling.policy == "native-k8s"


def test_a_stored_version_is_read_though_a_setting_is_gone_since() -> None:
    data = Policy(Settings(max_victims=3)).to_dict()
    data["scheduling"] |= {"was_there_once": 1, "policy": "was-there-once"}
    assert Policy.stored(data).scheduling == Settings(max_victims=3)


def test_the_difference_names_each_setting() -> None:
    changes = difference(Policy(), Policy(Settings(policy="fifo", restart_seconds=90.0)))
    assert [str(c) for c in changes] == ["scheduling.policy: weft -> fifo", "scheduling.restart_seconds: 60 -> 90"]


def test_large_and_fine_numbers_are_shown_in_full() -> None:
    changes = difference(Policy(), Policy(Settings(preemption_window_seconds=2_592_001.0, restart_seconds=0.125)))
    assert [str(c).rpartition(" ")[2] for c in changes] == ["2592001", "0.125"]


@pytest.mark.django_db
def test_a_save_is_a_new_version_with_an_event_that_tells_the_difference() -> None:
    first = policy.change(changes={"scheduling": {"restart_seconds": 90}}, author="ann", comment="slow disks")
    second = policy.change(changes={"scheduling": {"max_victims": 10}}, author="bob", seen=first)
    assert policy.current() == (Policy(Settings(restart_seconds=90.0, max_victims=10)), second)
    assert policy.version(first) == Policy(Settings(restart_seconds=90.0))
    newest, oldest = policies.rows(list(policies.versions()))
    assert (newest["version"], newest["author"], newest["in_force"], oldest["in_force"]) == (second, "bob", True, False)
    assert newest["changes"] == [{"field": "scheduling.max_victims", "before": 64, "after": 10}]
    told = Event.objects.filter(kind="PolicyChanged").latest("id")
    assert told.data["changes"] == {"scheduling.max_victims": [64, 10]}


@pytest.mark.django_db
def test_going_back_is_a_new_version_equal_to_the_old_one() -> None:
    first = policy.change(changes={"scheduling": {"restart_seconds": 90}}, author="ann")
    policy.change(changes={"scheduling": {"restart_seconds": 30}}, author="ann")
    third = policy.restore(number=first, author="bob")
    assert policy.current() == (policy.version(first), third)
    assert PolicyVersion.objects.get(pk=third).comment == f"As version {first}"
    fourth = policy.restore(number=0, author="bob")
    assert policy.current() == (Policy(), fourth)
    with pytest.raises(Refused, match="There is no version 999"):
        policy.restore(number=999, author="bob")


@pytest.mark.django_db
def test_what_cannot_be_or_changes_nothing_or_was_overtaken_is_refused() -> None:
    for changes, status, field in (
        ({"scheduling": {"policy": "native-k8s"}}, 422, "scheduling.policy"),
        ({"scheduling": {"ageing_seconds": 0}}, 422, "scheduling.ageing_seconds"),
        ({"scheduling": {}}, 422, ""),
    ):
        with pytest.raises(Refused) as refused:
            policy.change(changes=changes, author="ann")
        assert (refused.value.status, refused.value.field) == (status, field)
    first = policy.change(changes={"scheduling": {"restart_seconds": 90}}, author="ann", seen=0)
    with pytest.raises(Refused, match=f"The current version of the policy is {first}, not 0"):
        policy.save(policy=Policy(replace(Settings(), max_victims=2)), author="ann", seen=0)
    assert PolicyVersion.objects.count() == 1


@pytest.mark.django_db
def test_operators_show_list_set_and_restore_by_command(tmp_path: Path) -> None:
    def said(*words: object) -> str:
        out = io.StringIO()
        call_command("policy", *map(str, words), stdout=out)
        return out.getvalue()

    assert "the defaults apply" in said("--versions")
    file = tmp_path / "p.yaml"
    file.write_text("scheduling:\n  restart_seconds: 90\n")
    assert "scheduling.restart_seconds: 60 -> 90" in said("--set", file, "--comment", "slow disks")
    assert json.loads(said())["scheduling"]["restart_seconds"] == 90
    assert "(current)" in said("--versions")
    assert "scheduling.restart_seconds: 90 -> 60" in said("--restore", 0)
    assert json.loads(said("--show", 0)) == Policy().to_dict()
    with pytest.raises(CommandError, match="There is no version 77"):
        said("--show", 77)
    file.write_text("scheduling: [1\n")
    with pytest.raises(CommandError, match=r"p\.yaml line 2: .* Write JSON or YAML"):
        said("--set", file)
    file.write_text("scheduling:\n  max_victims: 0\n")
    with pytest.raises(CommandError, match=r"scheduling\.max_victims is 0\. Use a number from 1"):
        said("--set", file)


@pytest.mark.django_db
def test_the_loop_decides_by_the_policy_in_force_and_a_replay_by_that_of_its_round() -> None:
    world = World()
    policy.change(changes={"scheduling": {"policy": "fifo"}}, author="ann")
    names = [world.submit(name, gpus=gpus) for name, gpus in (("most", 8), ("big", 8), ("bigger", 8), ("small", 1))]
    schedule.run_once(world.wiring)
    assert [phase(one) for one in names] == ["Admitted", "Admitted", "Queued", "Queued"]
    small = names[-1]
    small.refresh_from_db()
    assert small.message == f"Behind {mention(str(names[2].pk))}: the policy starts workloads strictly in order."
    policy.restore(number=0, author="ann")
    out = io.StringIO()
    call_command("replay", stdout=out)  # by the version that the round was decided by
    assert "the same again" in out.getvalue()
    assert violations() == ()
