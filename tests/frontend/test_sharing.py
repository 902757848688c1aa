"""Pages and the admin console say what a pool takes, what holds a share to its part, and beside whom shares may lie."""

from controlplane.models import Event, Node, NodePool, Team
from tests.frontend.conftest import Visit
from tests.frontend.factory import World


def test_the_teams_page_says_what_each_pool_takes(bare: World, visit: Visit) -> None:
    NodePool.objects.filter(name="a100").update(takes="shares")
    Node.objects.filter(pool__name="l40s").update(takes_shares=False)
    text = visit("vic").get("/teams/").content.decode()
    assert "enforced by: advisory" in text
    assert "no node is labelled for shares" in text


def test_a_nodes_page_says_what_it_takes(bare: World, visit: Visit) -> None:
    node = Node.objects.filter(pool__name="a100").first()
    assert node is not None
    page = f"/nodes/{node.name}/"
    assert "whole GPUs and shares; <span" in visit("vic").get(page).content.decode()
    NodePool.objects.filter(name="a100").update(takes="shares")
    Node.objects.update(takes_shares=False)
    text = visit("vic").get(page).content.decode()
    assert "nothing new" in text
    assert "enforced by" not in text


def test_a_teams_admin_allows_sharing_on_the_page_of_its_people(bare: World, visit: Visit) -> None:
    client = visit("ada")
    assert "lie on one GPU with those of no other team" in client.get("/teams/nlp/people/").content.decode()
    assert client.post("/teams/nlp/sharing", {"shares_with_others": "on"}).status_code == 302
    assert Team.objects.get(name="nlp").shares_with_others
    assert "may lie on one GPU with shares of other teams" in client.get("/teams/nlp/people/").content.decode()
    assert client.post("/teams/nlp/reallocation", {"reallocation": "automatic"}).status_code == 302
    assert Team.objects.get(name="nlp").reallocation == "automatic"
    assert "What would make them faster is tried" in client.get("/teams/nlp/people/").content.decode()
    bad = client.post("/teams/nlp/reallocation", {"reallocation": "always"})
    assert bad.status_code == 422
    assert "reallocation must be one of: off, recommend, automatic." in bad.content.decode()
    assert visit("mel").post("/teams/nlp/reallocation", {"reallocation": "off"}).status_code == 403
    wrong = client.post("/teams/nlp/sharing", {"shares_with_others": "maybe"})
    assert wrong.status_code == 422
    assert "shares_with_others must be on or off." in wrong.content.decode()
    assert visit("mel").post("/teams/nlp/sharing", {"shares_with_others": "off"}).status_code == 403
    assert Team.objects.get(name="nlp").shares_with_others


def test_the_admin_console_changes_both(bare: World, visit: Visit) -> None:
    client, pool, team = visit("admin"), NodePool.objects.get(name="a100"), Team.objects.get(name="nlp")
    client.post(
        f"/admin/controlplane/nodepool/{pool.pk}/change/",
        {"gpu_model": "A100", "price_per_gpu_hour": "3.67", "takes": "whole"},
    )
    assert NodePool.objects.get(name="a100").takes == "whole"
    assert Event.objects.filter(kind="NodePoolChanged", data={"takes": ["both", "whole"]}).exists()
    parent = str(team.parent_id or "")
    client.post(f"/admin/controlplane/team/{team.pk}/change/", {"parent": parent, "shares_with_others": "on"})
    assert Team.objects.get(name="nlp").shares_with_others


def test_pages_say_what_enforces_shares_what_it_holds_and_that_it_was_not_verified(bare: World, visit: Visit) -> None:
    NodePool.objects.filter(name="a100").update(takes="shares", enforcer="mig")
    node = Node.objects.filter(pool__name="a100").first()
    assert node is not None
    for page in ("/teams/", f"/nodes/{node.name}/"):
        text = visit("vic").get(page).content.decode()
        assert "enforced by: mig (holds memory, time, faults; not verified on a GPU)" in text
        assert "A share is an instance" in text


def test_a_teams_admin_says_what_must_hold_its_shares(bare: World, visit: Visit) -> None:
    client = visit("ada")
    said = client.post("/teams/nlp/sharing", {"share_demands": ["memory", "mig"], "demands": "set"}, follow=True)
    assert "New shares of nlp go only where this is held: memory, mig." in said.content.decode()
    assert Team.objects.get(name="nlp").share_demands == "memory,mig"
    assert 'value="mig" checked' in client.get("/teams/nlp/people/").content.decode()
    wrong = client.post("/teams/nlp/sharing", {"share_demands": ["speed"], "demands": "set"})
    assert wrong.status_code == 422
    assert "share_demands names speed. Give some of memory, time, faults" in wrong.content.decode()
    client.post("/teams/nlp/sharing", {"demands": "set"})
    assert Team.objects.get(name="nlp").share_demands == ""
    assert visit("mel").post("/teams/nlp/sharing", {"demands": "set"}).status_code == 403


def test_the_admin_console_chooses_a_back_end_and_takes_demands(bare: World, visit: Visit) -> None:
    client, pool, team = visit("admin"), NodePool.objects.get(name="a100"), Team.objects.get(name="nlp")
    at, rest = f"/admin/controlplane/nodepool/{pool.pk}/change/", {"gpu_model": "A100", "price_per_gpu_hour": "3.67"}
    refused = client.post(at, {**rest, "takes": "both", "enforcer": "mig"})
    assert "Set takes to shares, or choose another enforcer." in refused.content.decode()
    client.post(at, {**rest, "takes": "shares", "enforcer": "mig"})
    assert NodePool.objects.get(name="a100").enforcer == "mig"
    parent = str(team.parent_id or "")
    client.post(f"/admin/controlplane/team/{team.pk}/change/", {"parent": parent, "share_demands": "faults, memory"})
    assert Team.objects.get(name="nlp").share_demands == "memory,faults"
