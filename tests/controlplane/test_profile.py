"""A service's profile, from its job file to the law."""

from typing import Any

import pytest

from autoscaler.profile import Profile
from controlplane.domain.cycle import pack_scaling, unpack_scaling
from controlplane.jobspec.spec import SpecError
from controlplane.models import ServiceState
from controlplane.queries.scheduling import scaling
from scheduler.model.snapshot import Snapshot
from tests.controlplane.state import World, job

pytestmark = pytest.mark.django_db
SAID = {"service_time": "250ms", "p95": "600ms", "slots": 4}


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"p95": "600ms"}, "profile.service_time", "profile.service_time is missing. Add it:"),
        ({**SAID, "p95": "100ms"}, "profile.p95", "profile.p95 is 0.1s, which is below profile.service_time"),
        ({**SAID, "slots": 0}, "profile.slots", "Set it to at least 1."),
        ({**SAID, "mean": "1s"}, "profile.mean", "profile.mean is not a field of profile."),
    ],
)
def test_a_profile_that_cannot_be_names_the_field(given: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        job("chat", kind="inference", profile=given)
    (error,) = refused.value.errors
    assert (error.field, says in error.message) == (field, True), error


def test_what_it_leaves_out_is_a_usual_spread_and_one_request_at_once() -> None:
    assert job("chat", kind="inference", profile=SAID).profile == Profile(0.25, 0.6, 4)
    assert job("chat", kind="inference", profile={"service_time": "1s"}).profile == Profile(1.0, 2.3, 1)
    assert "profile" not in job("chat", kind="inference").normalised()


def test_the_autoscaler_is_given_it_and_a_stored_round_has_it() -> None:
    world = World()
    chat = world.submit("chat", kind="inference", replicas={"min": 1, "max": 6}, profile=SAID)
    world.run(chat, "a")
    found = scaling.metrics(scaling.serving(), {})
    assert found.services[str(chat.pk)].profile == Profile(0.25, 0.6, 4)
    assert not ServiceState.objects.exists(), "it is no look: nothing is remembered of it yet"
    _, again = unpack_scaling(pack_scaling(Snapshot.build(0.0, (), (), (), ()), found))
    assert again == found
