"""Istio's own kinds: the definitions that it is installed with, schemas and all, from its API's pinned Go module.

Nothing of Istio runs. `python -m controlplane.testbed.istio` brings the file into the cache ahead of time.
"""

import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml

from controlplane.testbed import golang
from controlplane.testbed.api import Json
from controlplane.testbed.golang import Say, pinned
from controlplane.testbed.kubernetes import TestCluster
from controlplane.testbed.processes import HOW, MissingError

NAME = "Istio"
MODULE, FILE = "istio.io/api", "kubernetes/customresourcedefinitions.gen.yaml"
GROUP = "networking.istio.io"
ROUTES, RULES = "virtualservices", "destinationrules"


def find(say: Say = lambda _: None, *, fetch: bool = True) -> Path:
    """The file with all of Istio's kinds, from the cache, else from the module. Raises MissingError."""
    kept = _module()
    if not fetch and not kept.folder.exists():
        raise MissingError(NAME, HOW)
    with golang.once(kept.folder) as is_there:
        if not is_there:
            say(f"fetching {NAME}'s kinds {kept.version}")
            source = golang.sources(kept, "istio", MODULE) / FILE
            with golang.whole(kept.folder) as made:
                shutil.copyfile(source, made / source.name)
    return kept.folder / Path(FILE).name


def version() -> str:
    """The version of the module that go.mod pins, numbered as Istio is."""
    return pinned("istio", rf"{MODULE} (v\S+)")


def kinds(plurals: Sequence[str] = (ROUTES, RULES)) -> list[Json]:
    """The definitions of these kinds of networking.istio.io. Raises MissingError."""
    texts = find().read_text().split("\n---\n")  # the whole file takes 10 s to read as YAML
    wanted = [f"\n  name: {plural}.{GROUP}\n" for plural in plurals]
    return [yaml.safe_load(text) for text in texts if any(name in text for name in wanted)]


def install(cluster: TestCluster) -> None:
    """Give a cluster Istio's kinds and wait until it serves them. Raises MissingError."""
    made = kinds()
    cluster.apply(made)
    for kind in made:
        path = f"/apis/{GROUP}/v1/{kind['spec']['names']['plural']}"
        cluster.wait_for(partial(cluster.exists, path), path)


def _module() -> golang.Programs:
    """What pins the file, in the form in which programs are kept."""
    return golang.Programs(NAME, {"istio": {}}, version(), (), minutes="0")


if __name__ == "__main__":
    try:
        find(lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
