"""One mail about one matter, by Django's mail back end (EMAIL_URL)."""

import smtplib
import time
from dataclasses import dataclass

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage, get_connection

from controlplane.outgoing.https import Outcome
from controlplane.outgoing.payload import link

_SALT = "weft.unsubscribe"


@dataclass(frozen=True, slots=True)
class Mail:
    """What is sent. `rule` is the key of the rule that asked for it, None if it was taken back since."""

    delivery: str
    to: str
    title: str
    message: str
    page: str
    rule: int | None


def is_configured() -> bool:
    """Whether this installation sends mail."""
    return bool(settings.EMAIL_CONFIGURED)


def unsubscription(rule: int) -> str:
    """The path that stops the mails of a rule, for whoever has it."""
    return f"/notices/unsubscribe/{signing.dumps(rule, salt=_SALT)}"


def unsubscribed(token: str) -> int | None:
    """The rule that a path is for; None if it is not one of ours."""
    try:
        rule = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        return None
    return rule if isinstance(rule, int) else None


def send(mail: Mail) -> Outcome:
    """Send it; whatever goes wrong is an outcome. 250 stands for a server that took it, as in SMTP."""
    began = time.monotonic()
    try:
        message(mail).send()
    except smtplib.SMTPResponseException as error:
        text = f"The mail server answered {error.smtp_code}"
        return Outcome(None, text, time.monotonic() - began)
    except smtplib.SMTPRecipientsRefused:
        return Outcome(None, "The mail server refused the recipient", time.monotonic() - began)
    except (smtplib.SMTPException, OSError, ValueError) as error:  # ValueError: an address that is none
        text = getattr(error, "strerror", None) or type(error).__name__
        return Outcome(None, f"No mail server: {text}", time.monotonic() - began)
    return Outcome(250, "", time.monotonic() - began)


def message(mail: Mail) -> EmailMessage:
    """The mail. Its Message-ID follows from the delivery, so that one that is sent again can be known."""
    stop = link(unsubscription(mail.rule)) if mail.rule is not None else ""
    headers = {"Message-ID": f"<{mail.delivery}@{settings.MAIL_DOMAIN}>", "Auto-Submitted": "auto-generated"}
    if stop:
        headers |= {"List-Unsubscribe": f"<{stop}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    lines = [mail.title, "", mail.message, "", link(mail.page)]
    if stop:
        lines += ["", "--", f"No more mails about this: {stop}"]
    return EmailMessage(
        subject=f"[Weft] {mail.title}",
        body="\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1])).strip() + "\n",
        to=[mail.to],
        headers=headers,
        connection=get_connection(timeout=settings.EMAIL_TIMEOUT),
    )
