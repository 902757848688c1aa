"""A filled database and a browserless visitor for each role."""

from collections.abc import Callable
from functools import cache

import pytest
from django.core.cache import cache as kept
from django.test import Client
from django.test.client import ClientHandler

from tests.frontend.factory import World

Visit = Callable[[str], Client]


@cache
def _handler() -> ClientHandler:
    """One for all clients: each would look through all static files when it is made."""
    return ClientHandler(enforce_csrf_checks=False)


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    """What a page keeps for a moment is of another database."""
    kept.clear()


@pytest.fixture
def world(db: None) -> World:
    return World().base().fill(40)


@pytest.fixture
def bare(db: None) -> World:
    return World().base()


@pytest.fixture
def visit() -> Visit:
    """A client signed in as this user; '' is nobody."""

    def as_(name: str) -> Client:
        client = Client()
        client.handler = _handler()
        if name:
            from controlplane.models import User

            client.force_login(User.objects.get(username=name))
        return client

    return as_
