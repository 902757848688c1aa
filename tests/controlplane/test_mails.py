"""Mails on their way: to a real mail server, tried again, and how to stop them."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from django.db.models.functions import Now

from controlplane.models import Delivery, Notice
from controlplane.services.errors import Refused
from controlplane.services.notifications import notices, subscriptions
from tests.controlplane.telling import Told, make_due
from tests.servers import free_port

pytestmark = pytest.mark.django_db


@pytest.fixture
def told() -> Told:
    return Told()


class Sink:
    """A mail server that keeps what it gets, and refuses as often as it is told to."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.refusals = 0

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        if self.refusals:
            self.refusals -= 1
            return "451 Try again later"
        self.mails.append(envelope)
        return "250 OK"


@pytest.fixture
def sink(settings: Any) -> Iterator[Sink]:
    handler = Sink()
    server = Controller(handler, hostname="127.0.0.1", port=free_port())
    server.start()
    settings.EMAIL_CONFIGURED = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.PUBLIC_URL = "https://weft.example.test"
    yield handler
    server.stop()


def test_a_mail_says_what_happened_and_how_to_stop_it(told: Told, sink: Sink) -> None:
    rule = told.rule("ann", "ended", by_mail=True)
    told.end("train")
    told.until_settled()
    told.until_settled()
    [mail] = sink.mails
    text = mail.content.decode()
    assert mail.rcpt_tos == ["ann@example.test"]
    assert "Subject: [Weft] train succeeded" in text
    assert "https://weft.example.test/notices/unsubscribe/" in text
    assert "List-Unsubscribe-Post: List-Unsubscribe=One-Click" in text
    assert told.states() == [("delivered", 1)]
    assert subscriptions.unsubscribe(rule=rule.pk)
    told.end("next")
    told.until_settled()
    assert len(sink.mails) == 1
    assert told.titles("ann") == ["train succeeded", "next succeeded"]


def test_a_mail_server_that_refuses_is_asked_again(told: Told, sink: Sink) -> None:
    sink.refusals = 1
    told.rule("ann", "ended", by_mail=True)
    told.end("train")
    told.until_settled()
    assert told.states() == [("waiting", 1)]
    assert Delivery.objects.get().log[0][3] == "The mail server answered 451"
    make_due()
    told.until_settled()
    assert told.states() == [("delivered", 2)]
    assert len(sink.mails) == 1


def test_without_a_mail_server_nobody_can_ask_for_mail(told: Told) -> None:
    with pytest.raises(Refused, match="EMAIL_URL"):
        told.rule("ann", "ended", by_mail=True)


def test_there_is_an_end_to_the_mails_of_an_hour(told: Told, sink: Sink) -> None:
    told.rule("ann", "ended", by_mail=True)
    ann, now = told.user("ann"), Now()
    for n in range(notices.MAX_MAILS):
        seen = Notice.objects.create(user=ann, key=f"k{n}", matter="ended", team="red", title="t", cluster_at=0, at=now)
        Delivery.objects.create(notice=seen, key=seen.key, state="delivered", not_before=now, created_at=now)
    told.end("train")
    told.until_settled()
    assert told.titles("ann")[-1] == "train succeeded"
    assert sink.mails == []
