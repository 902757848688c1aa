"""What `tests/mutation.py` rests on: mutants are what they say, and what was seen holds only as long as it is true."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.mutants import Mutant, compiled, mutants
from tests.mutation import mixed
from tests.mutation_memory import APART, Memory, Seen, Verdict

CODE = """
class Door:
    def is_open(self, hour):
        if hour < 9:
            return False
        return not hour > 17
"""


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mutant]:
    (tmp_path / "door.py").write_text(CODE)
    for module in ("mutants", "mutation_memory"):
        monkeypatch.setattr(f"tests.{module}.ROOT", tmp_path)
    return list(mutants("door.py"))


def is_open(mutant: Mutant, hour: int) -> bool:
    def function(self: object, hour: int) -> bool:
        raise NotImplementedError

    function.__code__ = compiled(mutant)
    return function(None, hour)


def test_a_mutant_is_the_one_change_it_names(door: list[Mutant]) -> None:
    told = {(one.line, one.what): one for one in door}

    assert [one.nth for one in door] == list(range(len(door)))
    assert [is_open(told[4, "Lt -> LtE"], hour) for hour in (8, 9, 10, 17, 18)] == [False, False, True, True, False]
    assert [is_open(told[6, "without Not"], hour) for hour in (8, 9, 17, 18)] == [False, False, False, True]
    assert [is_open(told[5, "False -> True"], hour) for hour in (8, 9, 18)] == [True, True, False]
    assert [is_open(told[4, "9 -> 10"], hour) for hour in (9, 10)] == [False, True]


def test_what_was_seen_is_kept_until_its_test_or_the_code_changes(door: list[Mutant], tmp_path: Path) -> None:
    code, test = tmp_path / "weft" / "door.py", tmp_path / "tests" / "test_door.py"
    for path in (code, test):
        path.parent.mkdir()
        path.write_text("one")
    seen, verdict = {"a": Seen(1.0, 0.5, {"door.py": [4]})}, Verdict(True, "digest", ("a",))
    memory = Memory(tmp_path / "cache")
    memory.keep_look(test, 0, seen)
    memory.keep_verdict(door[0], verdict)

    again = Memory(tmp_path / "cache")
    assert (again.looked(test, 0), again.looked(test, 1)) == (seen, None)
    assert (again.verdict(door[0]), again.verdict(door[1])) == (verdict, None)

    test.write_text("two")
    again = Memory(tmp_path / "cache")
    assert (again.looked(test, 0), again.verdict(door[0])) == (None, verdict)
    assert Memory.texts([test]) != Memory.texts([])

    for name in APART:
        (tmp_path / "tests" / name).write_text("chooses, judges or explains")
    assert Memory(tmp_path / "cache").verdict(door[0]) == verdict

    code.write_text("two")
    assert Memory(tmp_path / "cache").verdict(door[0]) is None


def test_the_quickest_test_of_each_file_is_tried_before_the_second_of_any() -> None:
    cpu = {"a::1": 0.3, "a::2": 0.1, "a::3": 0.2, "b::1": 5.0, "c::1": 1.0, "c::2": 0.05}
    items: list[Any] = [SimpleNamespace(nodeid=name, path=Path(name[0])) for name in cpu]
    assert [one.nodeid for one in mixed(items, cpu)] == ["c::2", "a::2", "b::1", "a::3", "c::1", "a::1"]
