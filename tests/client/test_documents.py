"""Job files are read strictly, and every fault names file and line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.documents import MAX_BYTES, Document, JobFileError, load, parse


def read(text: str | bytes) -> list[Document]:
    return list(parse(text.encode() if isinstance(text, str) else text, "job.yaml"))


def fault(text: str | bytes) -> str:
    with pytest.raises(JobFileError) as caught:
        read(text)
    return str(caught.value)


def test_values_are_those_of_yaml_without_its_surprises() -> None:
    [document] = read("a: 3\nb: 0.5\nc: on\nd: 12:30\ne: true\nf:\ng: 0123\nh: '3'\ni: 2026-12-01T08:00:00Z\nj: [x, 1]")
    assert document.fields == {
        "a": 3,
        "b": 0.5,
        "c": "on",
        "d": "12:30",
        "e": True,
        "f": None,
        "g": "0123",
        "h": "3",
        "i": "2026-12-01T08:00:00Z",
        "j": ["x", 1],
    }


def test_several_documents_keep_their_order_and_empty_ones_fall_away() -> None:
    assert [one.fields["name"] for one in read("---\nname: a\n---\n---\nname: b\n")] == ["a", "b"]


def test_a_field_knows_its_line() -> None:
    _, second = read("name: a\n---\nname: b\nworkers:\n  count: 2\n  min: 9\nvolumes:\n  - claim: x\n    path: /data\n")
    assert second.where("workers.min") == "job.yaml:6"
    assert second.where("volumes[0].path") == second.where("volumes.0.path") == "job.yaml:9"
    assert second.where("workers.max") == "job.yaml:4"  # not written: its nearest surroundings
    assert second.where("image") == second.where("") == "job.yaml:3"


def test_json_is_yaml() -> None:
    assert read('{"type": "training", "resources": {"gpus": 1}}')[0].fields["resources"] == {"gpus": 1}


def test_a_key_given_twice_is_refused() -> None:
    assert fault("name: a\nteam: b\nname: c") == "job.yaml:3: name is given twice, first in line 1. Remove one."


def test_an_alias_is_refused_before_it_grows() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    assert fault(bomb).startswith("job.yaml:2: *a is an alias. Write the value out")


def test_a_tag_is_refused() -> None:
    assert "The tag tag:yaml.org,2002:python/object/apply:os.system is not allowed" in fault(
        "a: 1\nb: !!python/object/apply:os.system [ls]"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\nteam:\n\t- b", "job.yaml:3: This is not YAML: found character that cannot start any token. Indent"),
        ("name: a\nteam: b: c", "job.yaml:2: This is not YAML: mapping values are not allowed in this context. Quote"),
        ("- name: a", "job.yaml:1: A job is written as `field: value` lines, and this is none."),
        ("just text", "job.yaml:1: A job is written as"),
        ("? [a]\n: b", "job.yaml:1: A field's name must be text."),
        ("a: 99999999999999999999", "job.yaml:1: 99999999999999999999... is too large for a number."),
        (b"name: a\nteam: \xff", "job.yaml:2: The file is not UTF-8 text."),
        ("[" * 1000, "job.yaml:1: The file is nested more than 32 levels deep."),
        (b"#" * (MAX_BYTES + 1), "job.yaml: The file has 1,048,577 bytes. A job file has at most 1,048,576."),
    ],
)
def test_a_fault_names_its_line_and_the_fix(text: str | bytes, says: str) -> None:
    assert fault(text).startswith(says)


@given(st.one_of(st.binary(max_size=200), st.text(alphabet="ab:-[]{}&*!?|>'\"#%@`, \n\t0.~", max_size=80)))
def test_whatever_it_holds_a_file_is_read_or_refused(content: bytes | str) -> None:
    try:
        documents = read(content)
    except JobFileError as error:
        assert str(error).startswith("job.yaml")
    else:
        assert all(isinstance(one.fields, dict) for one in documents)


def test_files_are_read_in_the_order_given(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(f"name: {name}")
    assert [one.fields["name"] for one in load([str(tmp_path / "b"), str(tmp_path / "a")])] == ["b", "a"]


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_named(name: str) -> None:
    with pytest.raises(JobFileError, match=f"^{name}: The file cannot be read: "):
        load([name])


def test_a_file_without_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    with pytest.raises(JobFileError, match="The file is empty"):
        load([str(tmp_path / "empty.yaml")])
