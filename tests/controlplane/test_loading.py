"""Objects by composed-once statements are those of the query sets."""

import pytest
from django.forms.models import model_to_dict

from controlplane.models import Workload, loading
from controlplane.services.accounts import people, tokens
from tests.controlplane.state import World

pytestmark = pytest.mark.django_db
RELATED = ("team", "priority_class", "created_by")


def values(one: Workload) -> dict[str, object]:
    return {field.attname: getattr(one, field.attname) for field in one._meta.concrete_fields}


def test_a_loaded_row_is_what_a_query_set_gives_with_what_it_refers_to(django_assert_num_queries):
    world = World()
    made = [world.submit(name, workers=2) for name in ("one", "two")]
    Workload.objects.filter(pk=made[0].pk).update(
        created_by=people.create(username="ann", password="a long one 42", actor="root")
    )
    with django_assert_num_queries(1):
        found = loading.load(Workload, {"uid__among": [w.pk for w in made]}, order=("seq",), related=RELATED)
        seen = [(w.team.name, w.priority_class.name, w.created_by.username if w.created_by else None) for w in found]
    assert seen == [("red", "normal", "ann"), ("red", "normal", None)]
    for one in found:
        known = Workload.objects.get(pk=one.pk)
        assert values(one) == values(known)
        assert model_to_dict(one.team) == model_to_dict(known.team)
        assert not one._state.adding


def test_nothing_found_is_an_empty_list():
    assert loading.load(Workload, {"name": "nobody"}, related=RELATED) == []
    assert tokens.owner("weft_unknown") is None
