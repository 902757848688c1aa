"""A filled database and a browserless visitor for each role."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache

import pytest
from django.apps import apps
from django.core.cache import cache as kept
from django.db import connection
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


_filled: list[tuple[World, list[tuple[str, list[tuple[object, ...]]]]]] = []  # the world, and the rows of each table


@pytest.fixture
def world(db: None) -> World:
    """Made by the first test that wants it; for all others the same rows are put back, in a tenth of the time."""
    if _filled:
        made, tables = _filled[0]
        with connection.cursor() as cursor:
            for insert, rows in tables:
                cursor.executemany(insert, rows)
        return deepcopy(made)
    made = World().base().fill(40)
    _filled.append((deepcopy(made), _rows()))
    return made


def _rows() -> list[tuple[str, list[tuple[object, ...]]]]:
    """A statement and its parameters for each table that has rows now, beside those that migrations made."""
    tables = []
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            if model._meta.app_label != "controlplane" or not model._meta.managed:
                continue
            name = connection.ops.quote_name(model._meta.db_table)
            cursor.execute(f"SELECT * FROM {name}")  # noqa: S608  our own table's name
            rows = cursor.fetchall()
            if rows:
                places = ", ".join(["%s"] * len(rows[0]))
                tables.append((f"INSERT INTO {name} VALUES ({places})", rows))  # noqa: S608
    return tables


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
