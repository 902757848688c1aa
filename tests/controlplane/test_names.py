"""Names of people: what is none is refused wherever one is made, and what a provider says becomes one."""

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from controlplane.jobspec.names import MAX_LENGTH, username_fault, username_of
from controlplane.models import User
from controlplane.services.accounts import people
from controlplane.services.errors import Refused

NONE = (
    "", "<script>alert(1)</script>", "m\u0456a", "mia\u202e", "\u202eaim", "mi\u200ba", "red/ci", "a b", "mia\n",
    ".mia", "-mia", "mia.", "m\u00efa", "\uff4dia", "a" * (MAX_LENGTH + 1), "mia\x00",
)  # fmt: skip


@pytest.mark.parametrize("name", NONE)
def test_what_looks_like_another_name_or_is_no_name_is_refused(name: str) -> None:
    assert "Choose such a name." in username_fault(name)


@pytest.mark.parametrize("name", ["mia", "Mia.Meyer", "m", "mia@example.com", "mia+test-2_"])
def test_usual_names_are_taken(name: str) -> None:
    assert username_fault(name) == ""


@given(st.text(max_size=200))
def test_whatever_a_provider_calls_somebody_becomes_a_name(text: str) -> None:
    assert username_fault(username_of(text)) == ""


def test_letters_lose_their_accents_and_nothing_else() -> None:
    assert [username_of(name) for name in ("J\u00f6rg", "mia", "a b<script>", "\u202e")] == [
        "Jorg",
        "mia",
        "a-b-script",
        "user",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("name", NONE[1:3])
def test_the_console_makes_nobody_of_such_a_name(name: str) -> None:
    root = User.objects.create(username="root", is_superuser=True, is_staff=True)
    client = Client()
    client.force_login(root)
    answer = client.post("/admin/controlplane/user/add/", {"username": name, "new_password": "a long password"})
    assert answer.status_code == 200
    assert "Choose such a name." in answer.content.decode()
    assert User.objects.count() == 1


@pytest.mark.django_db
def test_a_name_that_differs_in_capitals_only_is_taken() -> None:
    User.objects.create(username="mia")
    with pytest.raises(Refused, match="differs in capitals only"):
        people.create(username="MIA", password="a long password", actor="root")
