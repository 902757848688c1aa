"""The console saves through the services: checked like REST, told in the log, in GPUs."""

from typing import Any

import pytest
from django.contrib import admin

from controlplane.models import (
    Change,
    Event,
    GroupMapping,
    Membership,
    NodePool,
    PolicyVersion,
    PriorityClass,
    Quota,
    Team,
    User,
    Workload,
)
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import PASSWORD, World, document

ADD = "/admin/controlplane/{}/add/"


def quota() -> Quota:
    return Quota.objects.get(team__name="nlp", pool__name="a100")


def change(row: Any) -> str:
    return f"/admin/controlplane/{row._meta.model_name}/{row.pk}/change/"


def form(row: Quota, **more: object) -> dict[str, object]:
    return {"nominal": "29", "borrowing_limit": "", "lending_limit": "", "weight": "1", "version": row.version} | more


def test_every_page_of_the_console_opens(world: World, visit: Visit) -> None:
    client = visit("admin")
    assert client.get("/admin/").status_code == 200
    for model in admin.site._registry:
        path = f"/admin/controlplane/{model._meta.model_name}/"
        assert client.get(path).status_code == 200, path
        row = model._default_manager.first()
        if row is not None:
            assert client.get(f"{path}{row.pk}/change/").status_code == 200, path


@pytest.mark.parametrize("who", ["ada", "mel", "vic", "out"])
def test_only_platform_admins_enter(world: World, visit: Visit, who: str) -> None:
    User.objects.filter(username=who).update(is_staff=True)  # staff is not enough
    assert visit(who).get("/admin/").status_code in (302, 403)
    assert visit(who).get("/admin/", follow=True).status_code == 403


def test_signing_in_is_the_pages_own(bare: World, visit: Visit) -> None:
    answer = visit("").get("/admin/controlplane/quota/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/login/?next=")


def test_a_quota_is_entered_in_gpus(bare: World, visit: Visit) -> None:
    row = quota()
    visit("admin").post(change(row), form(row, nominal="30.5", borrowing_limit="8", confirmed="on"))
    row.refresh_from_db()
    assert (row.nominal, row.borrowing_limit, row.version) == (30_500, 8_000, 2)
    told = Event.objects.get(kind="QuotaChanged")
    assert (told.actor, told.team) == ("admin", "nlp")
    assert told.data["nominal"] == [29_000, 30_500]
    assert Change.objects.filter(workload=None).exists()
    assert 'value="30.5"' in visit("admin").get(change(row)).content.decode()


def test_what_the_service_refuses_stands_at_the_field(bare: World, visit: Visit) -> None:
    row = quota()
    answer = visit("admin").post(change(row), form(row, lending_limit="40"))
    assert "Set lending_limit to at most" in answer.content.decode()
    row.refresh_from_db()
    assert row.version == 1
    assert not Event.objects.exists()


def test_a_quota_that_another_changed_meanwhile_is_not_overwritten(bare: World, visit: Visit) -> None:
    row = quota()
    client, old = visit("admin"), form(row, nominal="10")
    client.post(change(row), form(row, nominal="20"))
    assert "was changed meanwhile" in client.post(change(row), old).content.decode()
    assert quota().nominal == 20_000


def test_too_much_promised_is_said_at_the_field_before_it_is_saved_and_is_no_refusal(bare: World, visit: Visit) -> None:
    row = quota()
    answer = visit("admin").post(change(row), form(row, nominal="41"))
    assert answer.status_code == 200
    (told,) = answer.context["adminform"].form.errors["nominal"]
    assert told.startswith("Nominal quotas exceed the pool by 12 GPUs")
    assert quota().nominal == 29_000
    answer = visit("admin").post(change(row), form(row, nominal="41", confirmed="on"), follow=True)
    text = answer.content.decode()
    assert "The quotas of the teams in a100 add up to 91 GPUs" in text
    assert "nominal quotas exceed the pool by 12 GPUs" in text
    assert quota().nominal == 41_000


def test_who_would_be_affected_is_told_before_a_quota_is_saved(bare: World, visit: Visit) -> None:
    for i in range(24):  # vision owns 24 of the a100 and holds as many
        w = bare.add(document("training", f"v{i}", "vision"), Phase.RUNNING)
        bare.place(w, "Bound")
    row = Quota.objects.get(team__name="vision", pool__name="a100")
    errors = visit("admin").post(change(row), form(row, nominal="10")).context["adminform"].form.errors
    assert "vision has 24 GPUs allocated, and its quota would be 10" in errors["nominal"][0]
    row.refresh_from_db()
    assert row.nominal == 24_000


def test_the_history_of_a_quota_and_a_price_shows_each_value_before_and_after(bare: World, visit: Visit) -> None:
    row, client = quota(), visit("admin")
    client.post(change(row), form(row, nominal="20", borrowing_limit="4"))
    text = client.get(f"/admin/controlplane/quota/{row.pk}/history/").content.decode()
    assert "<del>29 GPUs</del>" in text
    assert "<ins>20 GPUs</ins>" in text
    assert "<del>no limit</del>" in text
    pool = NodePool.objects.get(name="a100")
    client.post(change(pool), {"gpu_model": "A100", "price_per_gpu_hour": "4.5"})
    text = client.get(f"/admin/controlplane/nodepool/{pool.pk}/history/").content.decode()
    assert "<del>3.67</del>" in text
    assert "<ins>4.5</ins>" in text
    assert "gpu model" not in text  # it stayed


def test_a_quota_is_taken_away_through_the_service(bare: World, visit: Visit) -> None:
    row = quota()
    visit("admin").post(f"/admin/controlplane/quota/{row.pk}/delete/", {"post": "yes"})
    assert not Quota.objects.filter(pk=row.pk).exists()
    assert Event.objects.filter(kind="QuotaRemoved", team="nlp").exists()


def test_live_workloads_follow_their_priority_class(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "job", "nlp"))
    row = PriorityClass.objects.get(name="normal")
    visit("admin").post(change(row), {"value": "250", "preemptible": "on", "is_default": "on"})
    assert Workload.objects.get(pk=w.pk).priority == 250


def test_teams_are_made_moved_and_never_their_own_ancestor(bare: World, visit: Visit) -> None:
    client = visit("admin")
    client.post(ADD.format("team"), {"name": "audio", "parent": Team.objects.get(name="speech").pk})
    made = Team.objects.get(name="audio")
    assert made.parent is not None and made.parent.name == "speech"
    answer = client.post(change(Team.objects.get(name="speech")), {"parent": made.pk})
    assert "cannot be its own ancestor" in answer.content.decode()
    taken = client.post(ADD.format("team"), {"name": "audio", "parent": ""})
    assert "Choose another name" in taken.content.decode()


def test_members_come_and_go_through_the_service(bare: World, visit: Visit) -> None:
    client, vision = visit("admin"), Team.objects.get(name="vision")
    client.post(ADD.format("membership"), {"user": bare.people["mel"].pk, "team": vision.pk, "role": "viewer"})
    row = Membership.objects.get(user__username="mel", team=vision)
    client.post(change(row), {"role": "member"})
    row.refresh_from_db()
    assert row.role == "member"
    client.post(f"/admin/controlplane/membership/{row.pk}/delete/", {"post": "yes"})
    kinds = list(Event.objects.order_by("id").values_list("kind", flat=True))
    assert kinds == ["MemberAdded", "MemberChanged", "MemberRemoved"]


def test_the_last_admin_of_a_team_stays_and_the_console_says_why(bare: World, visit: Visit) -> None:
    client, row = visit("admin"), Membership.objects.get(user__username="ada")
    answer = client.post(f"/admin/controlplane/membership/{row.pk}/delete/", {"post": "yes"}, follow=True)
    assert "ada is the last admin of nlp. Make another user an admin first." in answer.content.decode()
    assert "the last admin" in client.post(change(row), {"role": "viewer"}).content.decode()
    row.refresh_from_db()
    assert row.role == "admin"


def test_groups_are_mapped_in_the_console(bare: World, visit: Visit) -> None:
    client, form_ = visit("admin"), {"group": "ml", "team": bare.teams["nlp"].pk, "role": "member"}
    client.post(ADD.format("groupmapping"), form_)
    row = GroupMapping.objects.get()
    assert "mapped to nlp already" in client.post(ADD.format("groupmapping"), form_).content.decode()
    client.post(change(row), form_ | {"role": "admin"})
    assert GroupMapping.objects.get().role == "admin"
    client.post(f"/admin/controlplane/groupmapping/{row.pk}/delete/", {"post": "yes"})
    assert not GroupMapping.objects.exists()
    assert list(Event.objects.values_list("kind", flat=True)) == ["GroupMapped", "GroupMapped", "GroupUnmapped"]


def test_accounts_are_changed_after_giving_the_password_again(bare: World, visit: Visit, settings: Any) -> None:
    settings.REAUTHENTICATE = True
    client, path = visit("admin"), change(bare.people["mel"])
    asked = client.post(path, {"email": "new@example.com", "is_active": "on"})
    assert asked["Location"].startswith("/again/?next=")
    assert User.objects.get(username="mel").email == ""
    client.post(asked["Location"], {"password": PASSWORD})  # goes on with what was asked
    assert client.get(path).status_code == 200
    client.post(path, {"email": "newer@example.com", "is_active": "on"})
    assert User.objects.get(username="mel").email == "newer@example.com"


def test_accounts_are_made_with_a_good_password_and_can_sign_in(bare: World, visit: Visit) -> None:
    client, given = visit("admin"), {"username": "new", "email": "", "is_active": "on"}
    weak = client.post(ADD.format("user"), {**given, "new_password": "short"})
    assert "too short" in weak.content.decode()
    assert not User.objects.filter(username="new").exists()
    client.post(ADD.format("user"), {**given, "new_password": PASSWORD + "!"})
    assert visit("").post("/login/", {"username": "new", "password": PASSWORD + "!"}).status_code == 302
    assert PASSWORD not in str(list(Event.objects.values_list("data", flat=True)))


def test_an_account_that_is_switched_off_is_out_at_once(bare: World, visit: Visit) -> None:
    mel = visit("mel")
    assert mel.get("/").status_code == 200
    visit("admin").post(change(bare.people["mel"]), {"email": ""})
    assert mel.get("/").status_code == 302


def test_somebody_is_signed_out_everywhere_and_may_sign_in_again(bare: World, visit: Visit) -> None:
    mel, other, form = visit("mel"), visit("vic"), {"email": "", "is_active": "on"}
    visit("admin").post(change(bare.people["mel"]), form)
    assert mel.get("/").status_code == 200  # not asked for
    visit("admin").post(change(bare.people["mel"]), {**form, "sign_out": "on"})
    assert mel.get("/").status_code == 302
    assert other.get("/").status_code == 200
    assert visit("mel").get("/").status_code == 200
    ended = Event.objects.get(kind="SessionsEnded")
    assert (ended.actor, ended.data["user"]) == ("admin", "mel")


def test_the_last_platform_admin_stays_one(bare: World, visit: Visit) -> None:
    answer = visit("admin").post(change(bare.people["admin"]), {"email": "", "is_active": "on"})
    assert "is the last platform admin" in answer.content.decode()
    assert User.objects.get(username="admin").is_superuser


def test_pools_keep_their_names(bare: World, visit: Visit) -> None:
    row = NodePool.objects.get(name="a100")
    visit("admin").post(change(row), {"name": "other", "gpu_model": "A100", "price_per_gpu_hour": "4.5"})
    row.refresh_from_db()
    assert (row.name, str(row.price_per_gpu_hour)) == ("a100", "4.500")


@pytest.mark.parametrize("name", ["event", "cycle", "lease", "action", "token"])
def test_logs_can_only_be_read(world: World, visit: Visit, name: str) -> None:
    assert visit("admin").get(f"/admin/controlplane/{name}/add/").status_code == 403
    if name == "event":
        row = Event.objects.first()
        assert row is not None
        assert visit("admin").post(change(row), {"kind": "Other"}).status_code == 403
        assert visit("admin").post(f"/admin/controlplane/event/{row.pk}/delete/", {"post": "yes"}).status_code == 403


def policy_form(client: Any, query: str = "", **more: object) -> dict[str, object]:
    """What the add form of the policy shows, with some fields changed."""
    form = client.get(f"/admin/controlplane/policyversion/add/{query}").context["adminform"].form
    return {name: form.initial.get(name, "") for name in form.fields} | more


def test_the_policy_is_edited_as_a_new_version_with_its_difference(bare: World, visit: Visit) -> None:
    client, add = visit("admin"), "/admin/controlplane/policyversion/add/"
    client.post(add, policy_form(client, scheduling__restart_seconds="90", comment="slow disks"))
    row = PolicyVersion.objects.get()
    assert (row.author, row.comment, row.data["scheduling"]["restart_seconds"]) == ("admin", "slow disks", 90.0)
    page = client.get(change(row)).content.decode()
    assert "scheduling.restart_seconds: 60 -&gt; 90" in page
    assert client.post(change(row), {"comment": "other"}).status_code == 403
    assert Event.objects.get(kind="PolicyChanged").actor == "admin"


def test_each_setting_that_cannot_be_is_told_at_its_field(bare: World, visit: Visit) -> None:
    client, add = visit("admin"), "/admin/controlplane/policyversion/add/"
    bad = policy_form(client, scheduling__ageing_seconds="0", scheduling__max_victims="2.5", scaling__tail="x")
    errors = client.post(add, bad).context["adminform"].form.errors
    assert set(errors) == {"scaling__tail"}
    errors = client.post(add, bad | {"scaling__tail": "1"}).context["adminform"].form.errors
    assert errors["scheduling__ageing_seconds"] == [
        "scheduling.ageing_seconds is 0.0. Use a number from 1 to 604800 s."
    ]
    assert errors["scheduling__max_victims"] == ["scheduling.max_victims is 2.5. Use a whole number."]
    assert not PolicyVersion.objects.exists()


def test_an_empty_list_says_what_that_means(bare: World, visit: Visit) -> None:
    listed = "/admin/controlplane/policyversion/"
    text = visit("admin").get(listed).content.decode()
    assert "The default settings are in use." in text
    assert "Add policy version" in text
    assert "There is nothing here yet." in visit("admin").get("/admin/controlplane/cycle/").content.decode()
    searched = visit("admin").get("/admin/controlplane/team/?q=nobody").content.decode()
    assert "Nothing here matches the search and the filters." in searched
    assert "Show all" in searched


def test_going_back_starts_the_form_from_an_old_version(bare: World, visit: Visit) -> None:
    client, add = visit("admin"), "/admin/controlplane/policyversion/add/"
    client.post(add, policy_form(client, scheduling__restart_seconds="90"))
    first = PolicyVersion.objects.get()
    client.post(add, policy_form(client, scheduling__restart_seconds="30"))
    answer = client.get(f"/admin/controlplane/policyversion/{first.pk}/start-from/")
    assert answer["Location"] == f"{add}?from={first.pk}"
    client.post(add, policy_form(client, f"?from={first.pk}"))
    newest = PolicyVersion.objects.latest("pk")
    assert (newest.data, newest.comment) == (first.data, f"As version {first.pk}")


def test_a_policy_that_another_saved_meanwhile_is_not_overwritten(bare: World, visit: Visit) -> None:
    client, add = visit("admin"), "/admin/controlplane/policyversion/add/"
    old = policy_form(client, scheduling__restart_seconds="30")
    client.post(add, policy_form(client, scheduling__restart_seconds="90"))
    assert "which you saw. Read it and change it again." in client.post(add, old).content.decode()
    assert PolicyVersion.objects.count() == 1
