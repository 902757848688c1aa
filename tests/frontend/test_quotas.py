"""Quotas edited in place: what is odd and whom it touches is shown before saving, and can be simulated first."""

import pytest

from controlplane.models import Event, NodePool, Quota, Simulation, Team
from controlplane.queries.tenancy import teams
from controlplane.services.tenancy import quotas
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, document

PATH = "/teams/nlp/quotas/a100/"


def quota() -> Quota:
    return Quota.objects.get(team__name="nlp", pool__name="a100")


def form(**more: str) -> dict[str, str]:
    return {"nominal": "29", "borrowing_limit": "", "lending_limit": "", "weight": "1", "version": "1"} | more


def test_a_quota_is_saved_in_gpus_under_the_version_that_was_seen(bare: World, visit: Visit) -> None:
    client = visit("admin")
    assert 'value="29"' in client.get(PATH).content.decode()
    page = client.post(PATH, form(nominal="30.5", borrowing_limit="4"), follow=True).content.decode()
    assert "The nominal quota of nlp in a100 is 30.5 GPUs." in page
    assert (quota().nominal, quota().borrowing_limit, quota().lending_limit) == (30_500, 4000, None)
    answer = client.post(PATH, form(nominal="12"))
    assert answer.status_code == 412
    assert "was changed meanwhile" in answer.content.decode()
    assert quota().nominal == 30_500


def test_what_a_team_owns_includes_what_the_teams_below_it_own(bare: World, visit: Visit) -> None:
    """As the scheduler counts it: a parent's nominal quota does not come on top of its children's."""
    parent, pool = Team.objects.create(name="above"), NodePool.objects.get(name="a100")
    Team.objects.filter(name="nlp").update(parent=parent)

    def owned() -> int:
        (milli,) = (row.nominal for row in teams.pools() if row.name == "a100")
        return milli

    before = owned()
    theirs = Quota.objects.create(team=parent, pool=pool, nominal=quota().nominal)
    assert owned() == before
    assert quotas.warnings(pool=pool) == ()
    text = visit("admin").post("/teams/above/quotas/a100/preview", form(nominal="29")).content.decode()
    assert "exceed the pool" not in text
    for nominal, more in ((quota().nominal + 1000, 1000), (0, 0)):  # less than the teams below own: theirs counts
        Quota.objects.filter(pk=theirs.pk).update(nominal=nominal)
        assert owned() == before + more


def test_what_exceeds_the_pool_and_who_gets_less_is_shown_while_typing(bare: World, visit: Visit) -> None:
    for i in range(24):
        w = bare.add(document("training", f"v{i}", "vision"), Phase.RUNNING)
        bare.place(w, "Bound")
    text = visit("admin").post(f"{PATH}preview", form(nominal="41")).content.decode()
    assert "Nominal quotas exceed the pool by 12 GPUs" in text
    path = "/teams/vision/quotas/a100/preview"
    text = visit("admin").post(path, form(nominal="10")).content.decode()
    assert "vision has 24 GPUs allocated, and its quota would be 10" in text
    assert not Event.objects.filter(kind="QuotaChanged").exists()
    assert quota().nominal == 29_000


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("nominal", "", "Nominal quota is empty"),
        ("nominal", "-1", "Nominal quota is -1"),
        ("nominal", "1.0005", "at most 3 decimals"),
        ("nominal", "nan", "Nominal quota is nan"),
        ("nominal", "1e30", "Nominal quota is 1e30"),
        ("lending_limit", "40", "The lending limit is 40 but the nominal quota is 29"),
        ("weight", "0", "Weight is 0"),
        ("weight", "x", "Weight is x"),
    ],
)
def test_what_cannot_be_stands_at_its_field_and_nothing_is_saved(
    bare: World, visit: Visit, field: str, value: str, said: str
) -> None:
    answer = visit("admin").post(PATH, form(**{field: value}))
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert said in visit("admin").post(f"{PATH}preview", form(**{field: value})).content.decode()
    assert quota().version == 1


def test_it_can_be_simulated_before_it_is_saved(bare: World, visit: Visit) -> None:
    answer = visit("admin").post(PATH, form(nominal="12", simulate="1"))
    row = Simulation.objects.get()
    assert answer["Location"] == f"/what-if/{row.pk}/"
    (asked,) = row.asked["quotas"]
    assert (asked["team"], asked["pool"], asked["nominal_milli"], asked["weight"]) == ("nlp", "a100", 12_000, 1)
    assert quota().nominal == 29_000


@pytest.mark.parametrize("who", ["ada", "mel", "vic"])
def test_only_platform_admins_edit_and_only_they_are_shown_how(bare: World, visit: Visit, who: str) -> None:
    client = visit(who)
    assert client.get(PATH).status_code == 403
    assert client.post(PATH, form(nominal="1")).status_code == 403
    assert client.post(f"{PATH}preview", form()).status_code == 403
    assert PATH not in client.get("/teams/").content.decode()
    assert PATH in visit("admin").get("/teams/").content.decode()


def test_a_quota_of_nowhere_is_not_found(bare: World, visit: Visit) -> None:
    for path in ("/teams/none/quotas/a100/", "/teams/nlp/quotas/none/"):
        assert visit("admin").get(path).status_code == 404
