"""What may differ between before and now: old words and what they became. A comparison applies these and nothing else.

A row of TABLE (messages.py, descriptions.py) is a pattern and its replacement, as `re.sub` takes them: most are a word
or a sentence, some keep the numbers and names in a sentence. They are applied in their order to every text and every
key of what was recorded before; what a comparison then still finds different is a change of behaviour. RENAMED are the
keys of REST that are answered under both names, MOVED its addresses. decided.py names the rules of which two copies
disagreed, which of the two was right, and the test that pins it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from controlplane.domain.policyfields import OLD_NAMES
from tests.sameness.descriptions import DESCRIPTIONS
from tests.sameness.messages import MESSAGES
from tests.sameness.word import Word

TABLE: Sequence[Word] = (*MESSAGES, *DESCRIPTIONS)
RENAMED: Mapping[str, str] = {
    "matter": "event_type",
    "matters": "event_types",
    "remedies": "suggestions",
    "no_remedies": "no_suggestions",
    "held_milli": "allocated_milli",
    "held_milli_seconds": "allocated_milli_seconds",
    "held_gpu_hours": "allocated_gpu_hours",
    "decayed_milli": "recent_usage_milli",
    "least": "min",
    "most": "max",
    **OLD_NAMES["scheduling"],
    **OLD_NAMES["scaling"],
}
COLUMN = "held_gpu_hours"
AS_STORED = ("numbers", "terms")  # of a reason: their keys are stored, and keep their names
MOVED: Sequence[Word] = (
    Word(r"/notification-rules\b", "/notification-subscriptions"),
    Word(r"/remedy\b", "/suggestion"),
)
# A request names its fields, of which a refusal names one; texts name settings.
ASKED: Sequence[Word] = (
    Word(r"\bmatter(s?)(\.\d+)? is ", r"event_type\1\2 is "),
    Word(r"^matter(s?)(\.\d+)?$", r"event_type\1\2"),
    Word(r'"matter":"([\w-]+)"', r'"event_type":"\1","matter":"\1"'),
    *(Word(rf"\b{was}\b", now) for part in OLD_NAMES.values() for was, now in part.items()),
)
NOT_HERE = r"There is no such thing here\. Check the address\."
ADDRESSES: Sequence[tuple[str, str]] = (  # of a request, and what is not there where its answer said NOT_HERE
    (r"(?:notification-rules|service-accounts|templates|workloads:diff|workloads/watch)(?=\?|$)", "such team"),
    (r"nodes/([\w-]+)", r"node \1"),
    (r"workloads/<uuid \d+>", "workload with this uid"),
    (r"trainings/<uuid \d+>", "training with this uid"),
    (r"notebooks/<uuid \d+>", "notebook with this uid"),
    (r"inferences/<uuid \d+>", "inference service with this uid"),
    (r"notification-rules/(\d+)", r"notification subscription \1"),
    (r"service-accounts/(\d+)/tokens/(\d+)", r"token \2 of service account \1"),
    (r"service-accounts/(\d+)", r"service account \1"),
    (r"simulations/(\d+)", r"what-if \1"),
    (r"teams/(\w+)/members/(\w+)", "such member of this team"),
    (r"teams/(\w+)/quotas/(\w+)", r"quota \2 of this team"),
    (r"teams/(\w+)/budgets/(\w+)", r"budget \2 of this team"),
    (r"teams/(\w+)", "such team"),
    (r"templates/(\d+)", r"template \1"),
    (r"tokens/(\d+)", r"token \1"),
    (r"views/(\d+)", r"saved view \1"),
    (r"webhooks/<uuid \d+>/deliveries/<uuid \d+>", "delivery with this uid of webhook with this uid"),
    (r"webhooks/<uuid \d+>", "webhook with this uid"),
)
ADDED = (  # keys of answers that features since then have added
    "resize", "managed_by", "takes", "enforced_by", "share_nodes", "other_pods", "other_gpus", "shares_with_others",
    "burn_rates", "surplus_after_seconds", "revision", "surge", "rollout", "health",
    "standby", "awake", "asleep", "asleep_at", "is_lent", "lent", "lender", "lenders", "lend_after_seconds", "sleep",
    "native", "raised_limit", "max_limit", "reallocation", "slow_worker", "changed_by_weft", "notebook_park_minutes",
    "notebook_max_milli", "notebook_extend", "browser_url",
    "restart", "scaling_curve", "goodput",
    "harvest", "asynchronous", "affinity", "anti_affinity", "exclusion",
    "enforcer", "guarantees", "follows_limit", "verified", "enforcement", "share_demands",
    "on_gpus", "on_nodes", "on_host", "weights", "wake_seconds", "host_wake_seconds",
    "hold", "may_use_milli", "may_use_memory_mib", "measured_duty", "measured_memory_mib", "is_leaving", "neighbours",
    "lately", "headroom", "p95_of", "unknown_why", "reclaim_price", "taken", "lent_to", "as_of",
    "cell", "cells", "cells_number", "on_demand", "on_gpu", "in_host_memory",
)  # fmt: skip
ADDED_BESIDE = {"standing": "priority_class"}  # keys added to objects that have the other one; others had them before
ADDED_SETTINGS = (
    "scheduling.lend_after_seconds",
    "scheduling.harvest",
    "scaling.wake_seconds",
    "scaling.host_wake_seconds",
    "scaling.headroom",
    "scheduling.cells",
)  # rows that the list of settings has got since then
ADDED_ADDRESSES = ("/api/v1/cells",)  # since then, among the first of the schema, which are compared
NO_ADDRESS = "There is nothing at this address. Check the address."


def of_answer(answer: Any) -> Any:
    """A recorded answer, [request, status, headers, body], as it would be now."""
    asked, status, headers, body = translate(answer)
    return [asked_at(asked), status, headers, with_both_names(_of_address(answer[0], body))]


def asked_at(asked: str) -> str:
    """A request at the address of now: `GET /api/v1/notification-subscriptions`."""
    return str(translate(asked, MOVED))


def without_added(value: Any) -> Any:
    """An answer of now without the keys that it did not have when answers were recorded."""
    if isinstance(value, list):
        return [without_added(one) for one in value if not _is_added(one)]
    if isinstance(value, dict):
        added = {*ADDED, *(key for key, beside in ADDED_BESIDE.items() if beside in value)}
        return {key: without_added(one) for key, one in value.items() if key not in added}
    return _without_added_column(value) if isinstance(value, str) else value


def without_added_addresses(text: str) -> str:
    """The schema's document without the addresses that it has got since then; any other text as it is."""
    for address in ADDED_ADDRESSES:
        text = re.sub(rf'\n {{8}}"{address}": {{\n.*?\n {{8}}}},(?=\n)', "", text, count=1, flags=re.DOTALL)
    return text


def without_prices(decisions: list[Any]) -> list[Any]:
    """Decisions of a round without what a shrink costs, which is kept since rounds were recorded."""
    return [{k: v for k, v in one.items() if (one["kind"], k) != ("Shrink", "terms")} for one in decisions]


def _without_added_column(text: str) -> str:
    """A table without its last column, where that was added since."""
    head, *rows = text.split("\r\n")
    if head.rpartition(",")[2] not in ADDED or not rows:
        return text
    return "\r\n".join(row.rpartition(",")[0] for row in (head, *rows))


def _is_added(row: Any) -> bool:
    return isinstance(row, dict) and row.get("field") in ADDED_SETTINGS


def with_both_names(value: Any) -> Any:
    """A recorded body with each renamed key under both names."""
    if isinstance(value, list):
        return [with_both_names(one) for one in value]
    if isinstance(value, str):
        return _with_both_columns(translate(value, ASKED))
    if not isinstance(value, dict):
        return value
    out = {key: one if key in AS_STORED else with_both_names(one) for key, one in value.items()}
    return out | {now: out[was] for was, now in RENAMED.items() if was in out}


def _with_both_columns(text: str) -> str:
    """A table of usage with the old name of its column after the others."""
    head, *rows = text.split("\r\n")
    old = head.split(",").index(COLUMN) if head.startswith("start,") and COLUMN in head.split(",") else None
    if old is None:
        return text
    told = [f"{row},{row.split(',')[old]}" if row else row for row in rows]
    return "\r\n".join([f"{head.replace(COLUMN, RENAMED[COLUMN])},{COLUMN}", *told])


def _of_address(asked: str, body: Any) -> Any:
    """A body with the sentence that names what its address stands for. asked: `GET /api/v1/nodes/c`."""
    for address, what in ADDRESSES:
        if found := re.search(rf" /api/v1/{address}(?=[/:?]|$)", asked):
            return translate(body, (Word(NOT_HERE, found.expand(f"There is no {what}, or you may not see it.")),))
    return translate(body, (Word(NOT_HERE, NO_ADDRESS),))


def translate(value: Any, table: Sequence[Word] = TABLE) -> Any:
    """The recorded value (JSON) in the words of now: keys and texts, however deep."""
    if isinstance(value, str):
        return _of_now(value) if table is TABLE else _replaced(value, table)
    if isinstance(value, list):
        return [translate(one, table) for one in value]
    if isinstance(value, dict):
        return {translate(key, table): translate(one, table) for key, one in value.items()}
    return value


@lru_cache(maxsize=50_000)
def _of_now(text: str) -> str:
    """Most texts and keys come many times."""
    return _replaced(text, TABLE)


def _replaced(text: str, table: Sequence[Word]) -> str:
    for word in table:
        text = re.sub(word.old, word.new, text)
    return text
