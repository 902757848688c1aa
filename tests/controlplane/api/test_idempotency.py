import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection, connections

from controlplane.models import IdempotencyKey, Workload
from controlplane.services.errors import Refused
from controlplane.services.scheduling.clock import database_now
from controlplane.services.workloads import idempotency
from tests.controlplane.api.conftest import People, body_of, fields_of, job, people

KEY = "3f1c2b1e-0000-4000-8000-000000000001"


def test_the_same_key_and_body_submit_once_and_answer_alike(api: People) -> None:
    first = api.member.post("/workloads", job(), idempotency_key=KEY)
    again = api.member.post("/workloads", job(), idempotency_key=KEY)
    assert body_of(first, 201) == body_of(again, 201)
    assert first.content == again.content
    assert (first["Location"], first["ETag"]) == (again["Location"], again["ETag"])
    assert ("Idempotent-Replayed" in first, again["Idempotent-Replayed"]) == (False, "true")
    assert Workload.objects.count() == 1


def test_the_answer_is_the_first_one_even_when_the_workload_has_changed(api: People) -> None:
    first = body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201)
    body_of(api.member.post(f"/workloads/{first['uid']}/stop"))
    assert body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201) == first


def test_the_order_of_fields_does_not_make_another_body(api: People) -> None:
    body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201)
    turned = dict(reversed(job().items()))
    assert api.member.post("/workloads", turned, idempotency_key=KEY)["Idempotent-Replayed"] == "true"


def test_a_batch_is_replayed_too(api: People) -> None:
    batch = [job("a"), job("b")]
    first = api.member.post("/workloads:batch", batch, idempotency_key=KEY)
    assert body_of(first, 201) == body_of(api.member.post("/workloads:batch", batch, idempotency_key=KEY), 201)
    assert Workload.objects.count() == 2


def test_a_key_is_for_one_request_only(api: People) -> None:
    body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201)
    assert fields_of(api.member.post("/workloads", job("b"), idempotency_key=KEY), 422) == ["Idempotency-Key"]
    assert fields_of(api.member.post("/workloads:batch", [job()], idempotency_key=KEY), 422) == ["Idempotency-Key"]
    assert Workload.objects.count() == 1


def test_a_key_is_of_one_user(api: People) -> None:
    body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201)
    body_of(api.admin.post("/workloads", job("b"), idempotency_key=KEY), 201)


def test_a_refused_request_leaves_its_key_free(api: People) -> None:
    too_large = job(resources={"gpus": 9})
    assert fields_of(api.member.post("/workloads", too_large, idempotency_key=KEY), 422) == ["resources.gpus"]
    assert not IdempotencyKey.objects.exists()
    assert body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201)["name"] == "hello"


def test_a_key_is_free_again_after_a_day(api: People) -> None:
    body_of(api.member.post("/workloads", job(), idempotency_key=KEY), 201)
    kept = IdempotencyKey.objects.get().expires_at - database_now()
    assert timedelta(hours=23, minutes=59) < kept <= timedelta(hours=24)
    IdempotencyKey.objects.update(expires_at=database_now() - timedelta(seconds=1))
    body_of(api.member.post("/workloads", job("b"), idempotency_key=KEY), 201)
    assert IdempotencyKey.objects.count() == 1


def test_work_and_answer_are_kept_together_or_not_at_all(api: People) -> None:
    """A crash after the work and before the commit leaves neither."""

    class KilledError(Exception):
        pass

    def work() -> idempotency.Answer:
        Workload.objects.all().delete()
        raise KilledError

    body_of(api.member.post("/workloads", job()), 201)
    assert api.member.user is not None
    with pytest.raises(KilledError):
        idempotency.once(user=api.member.user, key=KEY, request=("POST", "/x", {}), work=work)
    assert Workload.objects.count() == 1
    assert not IdempotencyKey.objects.exists()


@pytest.fixture
def alone(transactional_db: None) -> Iterator[People]:
    yield people()


def test_many_at_once_with_one_key_submit_once(alone: People) -> None:
    answers: list[tuple[int, bytes]] = []
    start = threading.Barrier(12)

    def send() -> None:
        start.wait()
        answer = type(alone.member)(alone.member.token).post("/workloads", job(), idempotency_key=KEY)
        answers.append((answer.status_code, answer.content))
        connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 12
    assert {status for status, _ in answers} <= {201, 409}, answers
    assert len({content for status, content in answers if status == 201}) == 1
    assert Workload.objects.count() == 1


def test_while_the_first_is_at_work_the_second_acts_not_either(alone: People) -> None:
    """Postgres tells it to come again once it has waited `lock_timeout`; SQLite lets it wait for its turn."""
    user = alone.member.user
    assert user is not None
    request = ("POST", "/x", {})
    told: list[idempotency.Answer | str] = []

    def second() -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '100ms'")
        try:
            told.append(
                idempotency.once(user=user, key=KEY, request=request, work=lambda: idempotency.Answer(201, "2"))
            )
        except Refused as refused:
            told.append(f"{refused.status} {refused.code}")
        connections.close_all()

    thread = threading.Thread(target=second)

    def first() -> idempotency.Answer:
        thread.start()
        if connection.vendor == "postgresql":
            thread.join()
        return idempotency.Answer(201, "1")

    idempotency.once(user=user, key=KEY, request=request, work=first)
    thread.join()
    waited = idempotency.Answer(201, "1", {}, is_replayed=True)
    assert told == ["409 InFlight" if connection.vendor == "postgresql" else waited]
