"""What may differ between before and now: old words and what they became. A comparison applies these and nothing else.

A row of TABLE is a pattern and its replacement, as `re.sub` takes them: most are a word or a sentence, some keep the
numbers and names in a sentence. They are applied in their order to every text and every key of what was recorded
before; what a comparison then still finds different is a change of behaviour. DECIDED names the rules of which two
copies disagreed, which of the two was right, and the test that pins it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Word:
    """An old text (a regular expression) and the new one (with \\1 for its groups)."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule whose copies disagreed. test: as pytest names it."""

    rule: str
    right: str
    test: str


TABLE: Sequence[Word] = ()
DECIDED: Sequence[Rule] = (
    Rule(
        "A service that grows into the place of a replica of its own that still leaves",
        "simulator: it waits until that is gone (the services bound it at once: two pods on one share, S1)",
        "tests/controlplane/test_observe_places.py::test_a_service_that_grows_into_the_place_of_its_own_leaving_replica_waits_until_that_is_gone",
    ),
    Rule(
        "A failure that is not the job's fault while its retries are used up",
        "services: the gang is queued again (the simulator failed it)",
        "tests/controlplane/test_observe.py::test_an_end_that_is_not_the_jobs_fault_uses_up_no_retry",
    ),
    Rule(
        "A training whose workers succeeded while it was told to leave",
        "services: it succeeded only if all workers of the attempt did (the simulator asked only the last to end)",
        "tests/controlplane/test_observe.py::test_a_job_of_which_only_a_part_was_done_is_not_a_success",
    ),
    Rule(
        "Preemptions older than a day",
        "services: they are forgotten when it is queued again (the simulator kept them)",
        "tests/controlplane/test_observe.py::test_preemptions_older_than_a_day_are_forgotten",
    ),
    Rule(
        "When a job started",
        "services: when its last pod did (the simulator: when that was seen)",
        "tests/controlplane/test_observe.py::test_a_job_that_is_over_before_it_was_seen_running_has_a_start_and_an_end",
    ),
    Rule(
        "Workers on a node that is gone, in an observation of what changed",
        "services: they are gone with it (the simulator waited for a full one)",
        "tests/controlplane/test_observe_cluster.py::test_what_ran_on_a_lost_node_is_queued_again_without_a_failure",
    ),
    Rule(
        "A worker that was told to leave and still runs",
        "services: it is told again after its grace and a minute (the simulator told it at each full observation)",
        "tests/controlplane/test_observe_cluster.py::test_a_worker_that_was_told_to_leave_and_did_not_is_told_again",
    ),
    Rule(
        "A replica that crashes",
        "services: it counts, and the next one waits longer each time (the simulator started it at once)",
        "tests/controlplane/test_observe_places.py::test_a_replica_that_dies_leaves_a_gap_that_a_new_rank_fills",
    ),
    Rule(
        "Companions of workers that are all done",
        "services: they are stopped, and the gang has succeeded (the simulator knew no companions)",
        "tests/controlplane/test_roles.py::test_the_gang_is_done_when_its_workers_are_and_companions_are_stopped_then",
    ),
)


def translate(value: Any, table: Sequence[Word] = TABLE) -> Any:
    """The recorded value (JSON) in the words of now: keys and texts, however deep."""
    if isinstance(value, str):
        for word in table:
            value = re.sub(word.old, word.new, value)
        return value
    if isinstance(value, list):
        return [translate(one, table) for one in value]
    if isinstance(value, dict):
        return {translate(key, table): translate(one, table) for key, one in value.items()}
    return value
