"""Clients that are signed in, as browsers and by tokens."""

from django.test import Client

from controlplane.models import User
from controlplane.services.accounts.tokens import Issued

PASSWORD = "a long password"
NEW_PASSWORD = {"present": PASSWORD, "password": "another long one", "again": "another long one"}


def browser(user: User) -> Client:
    client = Client()
    answer = client.post("/login/", {"username": user.username, "password": PASSWORD})
    assert answer.status_code == 302, answer.content.decode()
    return client


def bearer(issued: Issued) -> Client:
    return Client(headers={"Authorization": f"Bearer {issued.secret}"})
