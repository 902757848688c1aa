"""What the settings allow webhooks to reach, and by which certificates."""

import ssl

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from controlplane.outgoing.https import Sender
from controlplane.outgoing.target import Policy


def policy() -> Policy:
    """Where webhooks may be. Raises ImproperlyConfigured."""
    try:
        return Policy.of(settings.WEBHOOK_PRIVATE)
    except ValueError as error:
        raise ImproperlyConfigured(f"WEFT_WEBHOOK_PRIVATE: {error}. List networks, such as 10.1.0.0/16.") from error


def sender() -> Sender:
    """How webhooks are sent: always with verified TLS."""
    tls = ssl.create_default_context()
    if settings.WEBHOOK_CA:
        tls.load_verify_locations(settings.WEBHOOK_CA)
    return Sender(policy(), tls)
