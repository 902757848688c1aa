"""A small world whose people and webhooks are told of it, by the loop and over the real network."""

import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db.models.functions import Now

from controlplane.cluster.port import PodPhase
from controlplane.loops import notify
from controlplane.loops.pace import Pace
from controlplane.loops.wiring import Wiring
from controlplane.models import (
    Delivery,
    DeliveryState,
    Membership,
    Notice,
    NotificationRule,
    Role,
    Team,
    User,
    Webhook,
    Workload,
)
from controlplane.runtime import wake
from controlplane.services.notifications import subscriptions, webhooks
from tests.controlplane.state import NoMetrics, PodCluster, World
from tests.receivers import NETWORK, Receiver

SECRET = "sixteen characters or more"


@dataclass
class Told:
    """Teams red (with red-a below it) and blue; ann and ben are members of red, bob of blue."""

    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        Team.objects.create(name="red-a", parent=Team.objects.get(name="red"))
        for name, team in (("ann", "red"), ("ben", "red"), ("bob", "blue")):
            user = User.objects.create_user(name, email=f"{name}@example.test")
            Membership.objects.create(user=user, team=Team.objects.get(name=team), role=Role.MEMBER)

    def user(self, name: str) -> User:
        return User.objects.get(username=name)

    def rule(self, who: str, matter: str, team: str = "", by_mail: bool = False) -> NotificationRule:
        of = Team.objects.get(name=team) if team else None
        return subscriptions.save(user=self.user(who), matter=matter, team=of, by_mail=by_mail)

    def webhook(self, to: Receiver, path: str = "/ok", team: str = "red", **more: Any) -> Webhook:
        given = {"name": f"hook {path}", "matters": ["ended"], "secret": SECRET, **more}
        issued = webhooks.create(team=Team.objects.get(name=team), url=to.url(path), actor="ann", **given)
        return issued.webhook

    def job(self, name: str, by: str = "ann", team: str = "red", **asked: Any) -> Workload:
        made = self.world.submit(name, team=team, **asked)
        Workload.objects.filter(pk=made.pk).update(created_by=self.user(by))
        made.refresh_from_db()
        return made

    def end(self, name: str, by: str = "ann", team: str = "red") -> Workload:
        """A job that runs and succeeds."""
        made = self.job(name, by, team)
        self.world.run(made, "a")
        self.world.pods(made, PodPhase.SUCCEEDED)
        return made

    def round(self, wired: Wiring | None = None) -> int:
        """One round, in which also is looked at how things stand."""
        wired = wired or self.world.wiring
        wired.kept["notify pace"] = Pace(0.0, 0.0)
        report = notify.run_once(wired)
        assert not report.skipped, report
        return report.did

    def until_settled(self, seconds: float = 30.0) -> None:
        """Rounds until nothing is under way in this process and nothing is due."""
        until = time.monotonic() + seconds
        while True:
            wake.bells["notify"].clear()
            did = self.round()
            if not did and not self.world.wiring.kept["tries"]:
                return
            assert time.monotonic() < until, self.states()
            if not did:
                wake.bells["notify"].wait(1.0)

    def titles(self, who: str) -> list[str]:
        return list(Notice.objects.filter(user__username=who).order_by("pk").values_list("title", flat=True))

    def states(self) -> list[tuple[str, int]]:
        return list(Delivery.objects.order_by("pk").values_list("state", "tries"))


def make_due() -> None:
    """Let all that waits be due: the back-off is over."""
    Delivery.objects.filter(state=DeliveryState.WAITING).update(not_before=Now() - timedelta(seconds=1))


def use(settings: Any, *receivers: Receiver, folder: Path) -> None:
    """Let webhooks reach these receivers."""
    authorities = folder / "authorities.pem"
    authorities.write_text("".join(one.ca.read_text() for one in receivers))
    settings.WEBHOOK_PRIVATE = [NETWORK]
    settings.WEBHOOK_CA = str(authorities)


def another_worker(holder: str = "another") -> Wiring:
    """The wiring of another process."""
    return Wiring(PodCluster(), NoMetrics(), holder)
