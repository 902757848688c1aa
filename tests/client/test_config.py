"""Where the CLI keeps its sign-in, and what beats what."""

import stat
from pathlib import Path

import pytest

from weft.config import Config, Context, load, path, resolve, save
from weft.errors import WeftError

HOME = Context("https://weft.example", "weft_stored", "mel", "nlp")
STORED = Config().with_context(HOME, "default")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "weft" / "config.json"
    save(STORED, file)
    assert load(file) == STORED


def test_only_the_owner_may_read_the_token(tmp_path: Path) -> None:
    file = tmp_path / "weft" / "config.json"
    file.parent.mkdir()
    file.write_text("{}")
    file.chmod(0o644)
    save(STORED, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in file.parent.iterdir()] == ["config.json"]


def test_a_missing_file_is_an_empty_configuration(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json") == Config()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"current": "x"}', '{"current": "x", "contexts": {"x": 3}}'])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(WeftError, match="is damaged. Delete it and run `weft login URL` again"):
        load(file)


def test_a_flag_beats_the_environment_and_that_the_file() -> None:
    env = {"WEFT_URL": "https://env.example", "WEFT_TOKEN": "weft_env", "WEFT_TEAM": "vision"}
    assert resolve(STORED, env={}) == HOME
    assert resolve(STORED, env=env) == Context("https://env.example", "weft_env", "mel", "vision")
    flags = resolve(STORED, url="https://flag.example", token="weft_flag", env=env)
    assert (flags.url, flags.token) == ("https://flag.example", "weft_flag")


def test_a_stored_token_is_not_sent_to_another_server() -> None:
    assert resolve(STORED, env={"WEFT_URL": "https://other.example"}).token == ""
    assert resolve(STORED, url="https://weft.example/", env={}).token == "weft_stored"


def test_contexts_are_chosen_by_name() -> None:
    both = STORED.with_context(Context("https://two.example", "weft_two"), "two")
    assert resolve(both, env={}).url == "https://two.example"
    assert resolve(both, name="default", env={}).url == "https://weft.example"
    with pytest.raises(WeftError, match=r"no context 'three' \(known: default, two\)"):
        resolve(both, name="three", env={})


def test_signing_out_forgets_the_token_and_keeps_the_address() -> None:
    kept = STORED.without_token("default").contexts["default"]
    assert (kept.url, kept.token) == ("https://weft.example", "")


def test_the_file_is_where_xdg_says(tmp_path: Path) -> None:
    assert path({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "weft" / "config.json"
    assert path({"WEFT_CONFIG": "/tmp/own.json"}) == Path("/tmp/own.json")
    assert path({}) == Path.home() / ".config" / "weft" / "config.json"
