"""Who we are to the API server, and that a token which is replaced is read again. No server is needed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.cluster.kubernetes.connection import TOKEN_SECONDS, Access, find
from controlplane.cluster.port import ClusterUnreachable


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


def kubeconfig(folder: Path, **user: str) -> Path:
    """A kubeconfig whose current user is `user`; another user has a token of its own."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "other", "user": {"token": "other"}}, {"name": "weft", "user": user}],
        "contexts": [{"name": "weft", "context": {"cluster": "here", "user": "weft"}}],
        "current-context": "weft",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def clock() -> Clock:
    return Clock()


def access_of(path: Path, clock: Clock) -> Access:
    access = find(str(path))
    access.clock = clock
    return access


def shown(access: Access) -> str | None:
    return access.headers().get("Authorization")


def test_a_token_file_that_is_replaced_is_read_again(tmp_path: Path, clock: Clock) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    access = access_of(kubeconfig(tmp_path, tokenFile=str(token)), clock)
    assert shown(access) == "Bearer first"
    token.write_text("second\n")
    assert shown(access) == "Bearer first"  # not at each request
    clock.at += TOKEN_SECONDS
    assert shown(access) == "Bearer second"


def test_a_token_file_is_found_beside_the_kubeconfig(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "token").write_text("first")
    access = access_of(kubeconfig(tmp_path, tokenFile="token"), clock)
    (tmp_path / "token").write_text("second")
    assert shown(access) == "Bearer second"


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_token_file_that_is_gone_or_empty_is_no_answer_and_is_looked_at_again(
    tmp_path: Path, clock: Clock, content: str | None
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    access = access_of(kubeconfig(tmp_path, tokenFile=str(token)), clock)
    token.unlink() if content is None else token.write_text(content)
    with pytest.raises(ClusterUnreachable, match="token cannot be read"):
        shown(access)
    token.write_text("second")
    assert shown(access) == "Bearer second"  # at once


def test_a_token_in_the_kubeconfig_goes_before_its_token_file(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "token").write_text("of the file")
    access = access_of(kubeconfig(tmp_path, token="given", tokenFile="token"), clock)
    assert shown(access) == "Bearer given"


def test_without_a_token_no_header_is_sent(tmp_path: Path, clock: Clock) -> None:
    assert access_of(kubeconfig(tmp_path), clock).headers() == {}
