"""A team's budgets on their page: set, changed, taken away; what is wrong is said at its field."""

from uuid import uuid4

import pytest
from django.urls import reverse_lazy

from controlplane.models import Budget, Team, Usage
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR
from controlplane.services.scheduling import clock
from tests.frontend.conftest import Visit
from tests.frontend.factory import World

pytestmark = pytest.mark.django_db
PAGE = "/teams/nlp/budgets/"
ADD = reverse_lazy("admin:controlplane_budget_add")


def test_an_admin_sets_changes_and_removes_a_budget(bare: World, visit: Visit) -> None:
    admin = visit("admin")
    given = {"period": "week", "version": "0", "gpu_hours": "500", "is_hard": "hard"}
    assert admin.post(PAGE, given).status_code == 302
    made = Budget.objects.get(team__name="nlp")
    assert (made.period, made.gpu_hours, made.is_hard) == ("week", 500, True)
    assert b"of 500 used" in admin.get(PAGE).content
    admin.post(PAGE, {**given, "version": str(made.version), "gpu_hours": "600", "is_hard": "soft"})
    made.refresh_from_db()
    assert (made.gpu_hours, made.is_hard) == (600, False)
    assert b"budget for this week" in admin.get("/teams/").content
    admin.post(PAGE, {"period": "week", "version": str(made.version), "remove": "1"})
    assert not Budget.objects.exists()


def test_a_budget_of_no_more_than_what_is_used_is_asked_about_before_it_is_saved(bare: World, visit: Visit) -> None:
    admin, now = visit("admin"), int(clock.now())
    Usage.objects.create(
        team=Team.objects.get(name="nlp"), workload=uuid4(), name="w", pool="a100", hour=now - now % 3600,
        held=7 * MILLI_SECONDS_PER_GPU_HOUR,
    )  # fmt: skip
    given = {"period": "day", "version": "0", "gpu_hours": "7", "is_hard": "hard"}
    page = admin.post(PAGE, given)
    day = next(form for form in page.context["forms"] if form.period == "day")
    assert (page.status_code, day.asks) == (422, True)
    assert day.fields[0].fault.startswith("Team nlp has used 7.0 GPU hours this day already, and 7 is not more")
    assert b'name="accept_used_up"' in page.content
    assert not Budget.objects.exists()
    assert admin.post(PAGE, {**given, "accept_used_up": "1"}).status_code == 302
    assert Budget.objects.get().gpu_hours == 7


def test_the_console_asks_before_it_saves_a_budget_that_is_used_up(bare: World, visit: Visit) -> None:
    admin, now, team = visit("admin"), int(clock.now()), Team.objects.get(name="nlp")
    Usage.objects.create(
        team=team, workload=uuid4(), name="w", pool="a100", hour=now - now % 3600, held=7 * MILLI_SECONDS_PER_GPU_HOUR
    )
    given = {"team": str(team.pk), "period": "day", "gpu_hours": "7", "version": ""}
    page = admin.post(ADD, given)
    assert b"has used 7.0 GPU hours this day already" in page.content
    assert not Budget.objects.exists()
    assert admin.post(ADD, {**given, "accept_used_up": "on"}).status_code == 302
    assert Budget.objects.get().gpu_hours == 7


@pytest.mark.parametrize("text", ["", "many", "-1", "0", "99999999999"])
def test_hours_that_are_none_come_back_with_the_fault_at_their_field(bare: World, visit: Visit, text: str) -> None:
    page = visit("admin").post(PAGE, {"period": "day", "version": "0", "gpu_hours": text, "is_hard": "soft"})
    assert page.status_code == 422
    day = next(form for form in page.context["forms"] if form.period == "day")
    assert day.fields[0].fault
    assert day.fields[0].value == text
    assert not any(field.fault for form in page.context["forms"] if form is not day for field in form.fields)
    assert not Budget.objects.exists()


@pytest.mark.parametrize("verb", [{"gpu_hours": "7", "is_hard": "soft"}, {"remove": "1"}])
def test_what_another_changed_meanwhile_is_not_overwritten(bare: World, visit: Visit, verb: dict[str, str]) -> None:
    admin = visit("admin")
    admin.post(PAGE, {"period": "day", "version": "0", "gpu_hours": "5", "is_hard": "soft"})
    page = admin.post(PAGE, {"period": "day", "version": "99", **verb})
    assert page.status_code == 412
    assert b"changed meanwhile" in page.content
    assert Budget.objects.get().gpu_hours == 5


@pytest.mark.parametrize("who", ["ada", "mel", "vic", "out"])
def test_only_platform_admins_may(bare: World, visit: Visit, who: str) -> None:
    assert visit(who).get(PAGE).status_code == 403
    assert visit(who).post(PAGE, {"period": "day", "version": "0", "gpu_hours": "5"}).status_code == 403
    assert "/budgets/" not in visit(who).get("/teams/").content.decode()


@pytest.mark.parametrize("path", ["/teams/nobody/budgets/"])
def test_an_unknown_team_is_not_found(bare: World, visit: Visit, path: str) -> None:
    assert visit("admin").get(path).status_code == 404
