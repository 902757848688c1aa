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


TABLE: Sequence[Word] = (
    # Reasons (scheduler)
    Word(r"tried again at (\d\d:\d\d:\d\d cluster time)", r"retry at \1"),
    Word(r"Has its place; waits for ([^\"]+?) to leave it\.", r"Its place is reserved; it waits for \1 to leave."),
    Word(r"may hold at most ([\w.-]+ in )", r"may use at most \1"),
    Word(r"Is behind ([^,\"]+?), which asks the same\.", r"Behind \1 (same request)."),
    Word(r"Is behind ([^,\"]+?), which asks no more\.", r"Behind \1 (no larger request)."),
    Word(
        r"Is behind ([^,\"]+?): the policy starts nothing out of turn\.",
        r"Behind \1: the policy starts workloads strictly in order.",
    ),
    Word(
        r"Is behind ([^,\"]+?), which has high priority and no room yet\.",
        r"Behind \1, which has high priority and does not fit yet.",
    ),
    Word(
        r"Was preempted (\d+) times and so starts only within what its team owns; it needs ([\w.-]+ GPUs?), "
        r"team ([\w.-]+) holds ([\w.-]+) of the ([\w.-]+) it owns in ([\w.-]+)\.",
        r"Preempted \1 times, so it starts only within the quota of its team; it needs \2, "
        r"and team \3 has \4 of its quota of \5 in \6 allocated.",
    ),
    Word(r"Would fit, but the room is kept for", "Would fit, but the room is reserved for"),
    Word(
        r"Others could make room for it, but that is kept for",
        "Preemption could make room for it, but that room is reserved for",
    ),
    Word(r"and this one may run (\d)", r"and this one may run for \1"),
    Word(
        r"[Aa]sks whole GPUs and a share of one\. Ask one of them\.",
        "Requests both whole GPUs and a share of one. Request only one of them.",
    ),
    Word(r"workers\.min is (\d+) but (\d+) are wanted\.", r"workers.min is \1 but count is \2."),
    Word(
        r"that may not be preempted; team ([\w.-]+) holds ([\w.-]+) such of the ([\w.-]+) it owns in ([\w.-]+)\.",
        r"that may not be preempted; team \1 has \2 such allocated, its quota in \4 is \3.",
    ),
    Word(
        r"(team [\w.-]+) holds ([\w.-]+) of the ([\w.-]+) it may hold in ([\w.-]+)\.",
        r"\1 has \2 of at most \3 allocated in \4.",
    ),
    Word(
        r"(of which [\w.-]+ is a part,) holds ([\w.-]+) of the ([\w.-]+) it may hold in ([\w.-]+)\.",
        r"\1 has \2 of at most \3 allocated in \4.",
    ),
    Word(
        r"(team [\w.-]+) holds ([\w.-]+), owns ([\w.-]+) in ([\w.-]+), and nobody lends more now\.",
        r"\1 has \2 allocated, its quota in \4 is \3, and no team has idle quota to lend.",
    ),
    Word(r"(\d) are free in all", r"\1 are free in total"),
    Word(r"the nodes that are ready and take work could", "the ready and schedulable nodes could"),
    Word(r"no model that is here may be used by all of them", "no model in the cluster is allowed for all of them"),
    # Explanations and suggestions
    Word(r"(\d+) claimants go first,", r"\1 ahead of it in the queue,"),
    Word(
        r"The next round is full before its turn comes; one of the rounds after it decides\.",
        "The next round reaches its limit of changes before this workload; a later round decides.",
    ),
    Word(r"Nobody has to leave\.", "No workload is preempted."),
    Word(r"\b1 workloads leave for it\.", "1 workload is preempted."),
    Word(r"(\d+) workloads leave for it\.", r"\1 workloads are preempted."),
    Word(r"\b1 elastic gangs give workers\.", "1 elastic gang is shrunk."),
    Word(r"(\d+) elastic gangs give workers\.", r"\1 elastic gangs are shrunk."),
    Word(r"Not looked at: it cannot start anyway\.", "Not checked: it cannot start anyway."),
    Word(r"Team [\w.-]+ holds no GPUs for this; it may hold more\.", "It needs no GPU quota."),
    Word(
        r"(Team [\w.-]+) holds ([\w.-]+ of [\w.-]+ in [^;\"]+); it may hold more\.",
        r"\1 has \2 allocated; it may use more.",
    ),
    Word(r"\b1 workloads of its team have lower", "1 workload of its team has lower"),
    Word(
        r"; ([^;\"]+) borrow, but what may be taken back does not make room\.",
        r"; reclaiming what \1 borrow does not make enough room.",
    ),
    Word(r"nobody borrows what its team owns\.", "no team borrows from its team's quota."),
    Word(r"Gets its place on ([^\"]+?) in the next round\.", r"Is placed on \1 in the next round."),
    Word(
        r"What holds it is neither room nor quota, so no change of its ask, of quota or of other work starts it now\.",
        "Neither capacity nor quota holds it back; a change of its request, quota or other work would not help.",
    ),
    Word(
        r"starts it now: none of its ask, priority or quota, no stop of other work\.",
        "starts it now: of its request, priority or quota, or a stop of other work.",
    ),
    Word(
        r"Changes are searched for and tested only under the policy weft, and ([\w.-]+) is in use; "
        r"preview a job that asks for something else,",
        r"Suggestions need the policy weft, and \1 is in use; preview the job with another request,",
    ),
    Word(r"Ask ([^\"]+? instead of )", r"Request \1"),
    Word(r"Allow ([\w.-]+) beside ", r"Allow \1 in addition to "),
    # REST answers, and what services say
    Word(r"\b([A-Z]+) is not for here\.", r"\1 is not allowed here."),
    Word(r"The Authorization header is not one of ours\.", "The Authorization header has an unknown form."),
    Word(r"If-Match is not an ETag of ours\.", "If-Match is not a valid ETag."),
    Word(r"cursor is not one of this list\.", "cursor does not belong to this list."),
    Word(r"Nothing differs from what is in force\.", "Nothing differs from the current settings."),
    Word(r"milli-GPU owned; 1000 = one GPU\.", "milli-GPU of nominal quota; 1000 = one GPU."),
    Word(r"is for everybody\. Name one of your teams\.", "is for all teams. Name one of your teams."),
    Word(r"a rule without one is about all\.", "a rule without a team covers all teams."),
    Word(
        r"There is no workload of this uid that you may see\.",
        "There is no workload with this uid, or you may not see it.",
    ),
    Word(r"is of another server, or of before it was restored\.", "is from another server, or from before a restore."),
    Word(r"Version (\d+) of the policy is in force, not (\d+),", r"The current version of the policy is \1, not \2,"),
    Word(r"These settings are in force already: ", "These are the current settings already: "),
    Word(r"nothing new of it starts until the next one begins\.", "nothing new of it starts before the next period."),
    Word(r"nothing new starts until it begins anew", "nothing new starts before the next period"),
    Word(r"People are known from their first sign-in on\.", "A user exists from the first sign-in on."),
    Word(r"name is not one\. Use", "name is not valid. Use"),
    Word(r"Nobody used it for", "It was not used for"),
    Word(r"(\d) % of its error budget are left\.", r"\1 % of its error budget is left."),
    # Help of settings and fields, and the schema's descriptions, as they stand
    Word(r"The request is not right\.", "The request is invalid."),
    Word(r"The request is not right; every fault is named\.", "The request is invalid; every error is named."),
    Word(r"Only JSON is offered\.", "Only JSON is available."),
    Word(r"The present state does not allow this\.", "The current state does not allow this."),
    Word(r"It is not there any more; the detail says how to go on\.", "It is gone; the detail says how to continue."),
    Word(r"Well written, but it could never be done\.", "Well-formed, but it can never be done."),
    Word(r"Something is not answering; see Retry-After\.", "A component does not answer; see Retry-After."),
    Word(
        r"A service account gives nobody rights or tokens\. An admin of its team does\.",
        "A service account may not grant rights or tokens. Ask an admin of its team.",
    ),
    Word(r"There are none here\.", "There are no parameters here."),
    Word(r"TEAM/NAME: whom events name\.", "TEAM/NAME: its name in events."),
    Word(
        r"Of the last hour; 1 uses the budget up by the window's end\.",
        "Burn rate of the last hour; 1 = on target: the budget lasts to the window's end.",
    ),
    Word(
        r"Of the authenticator app, for those who sign in in two steps\.",
        "From the authenticator app, for users with two-factor authentication.",
    ),
    Word(
        r"Whose it is; without it everybody's, which only platform admins may save\.",
        "The team that owns it; without it, it is for all teams, and only platform admins may save it.",
    ),
    Word(r"What one chooses it by\.", "The name in the list."),
    Word(r"What it is called\.", "Its name."),
    Word(r"What to be told of\.", "The event type."),
    Word(
        r"Whose it is: what happens there and in the teams below it is sent\.",
        "The team that owns it: what happens in it and in the teams below it is sent.",
    ),
    Word(r"What it is called\.", "Its name."),
    Word(
        r"Whether anything is sent; switched off, what waits is given up\.",
        "Whether it sends; when it is switched off, waiting deliveries are given up.",
    ),
    Word(r"What is sent\.", "The event types that are sent."),
    Word(
        r"There is no such workload, or none that you may see\. Check the uid\.",
        "There is no such workload, or you may not see it. Check the uid.",
    ),
    Word(
        r"Whose first event is of this kind, such as QuotaChanged\.",
        "With a first event of this kind, such as QuotaChanged.",
    ),
    Word(
        r"and a rule without one is about all\. Name the team\.",
        "and a rule without a team covers all teams. Name the team.",
    ),
    Word(
        r"A template without a team is for everybody\. Name one of your teams\.",
        "A template without a team is for all teams. Name one of your teams.",
    ),
    Word(
        r"The version that was seen in force, as an ETag; 412 if there is a newer one\.",
        "The ETag of the current version that was seen; 412 if there is a newer one.",
    ),
    Word(r"What happens when nobody uses it\.", "What happens when it is not used."),
    Word(r"Not all of them can have theirs at once\.", "Not all of them can be used at once."),
    Word(
        r"Its part in what is over, against other borrowers'\.", "Its weight when idle quota is shared among borrowers."
    ),
    Word(
        r"Below 100, so that it never passes the next class\.",
        "Below 100, so that a workload never passes the next class.",
    ),
    Word(
        r"Nobody is made to leave before it has run this long\.",
        "A workload is not preempted before it has run this long.",
    ),
    Word(
        r"What is borrowed is left alone so long by others that borrow too\.",
        "A borrower is not preempted for another borrower before this time.",
    ),
    Word(
        r"Decayed use: a GPU hour of so long ago counts half\.",
        "Recent usage: a GPU hour that is this old counts half.",
    ),
    Word(
        r"How much past borrowing moves the weights; 0: not at all\.",
        "How strongly recent usage changes the weights; 0: not at all.",
    ),
    Word(
        r"Most times a workload is made to leave within the window\.",
        "Most times a workload is preempted within the window.",
    ),
    Word(r"The window that these times are counted in\.", "The window in which preemptions are counted."),
    Word(
        r"A team's first in line that waits longer takes the places of its team's work that was queued after it\.",
        "A first workload of a team's queue that waits longer may preempt work of its team that was queued later.",
    ),
    Word(
        r"\.\.\. and so many times the median wait of its team's running work\.",
        "... and this many times the median wait of its team's running work.",
    ),
    Word(
        r"A gang that does not run whole by then goes back to the queue\.",
        "A gang that does not run completely within this time is queued again.",
    ),
    Word(
        r"A waiting message with other figures is written again after this time\.",
        "A reason for waiting whose figures have changed is written again after this time.",
    ),
    Word(
        r"\.\.\. and not before the wait has grown by this part\.",
        "... and not before the wait has grown by this ratio.",
    ),
    Word(
        r"What stopping and starting costs a victim beside the work it loses\.",
        "What a restart costs a victim in addition to the work it loses.",
    ),
    Word(
        r"A training whose deadline is no further away goes before others\.",
        "A training with a deadline this near goes ahead of others.",
    ),
    Word(
        r"What a service loses when it has to leave: so much of its GPUs' time\.",
        "What a service loses when it is preempted: this much time of its GPUs.",
    ),
    Word(
        r"An elastic gang that started or changed is left alone so long\.",
        "An elastic gang is not resized again within this time.",
    ),
    Word(
        r"Moved to other places in one round, to make room in one piece\.",
        "Most workloads that one round moves to consolidate free GPUs.",
    ),
    Word(r"Sets of moves that are tried in one round\.", "Most sets of moves that one round tries."),
    Word(r"Sets of victims that are tried for one claimant\.", "Most sets of victims that are tried for one workload."),
    Word(
        r"Placed or made to leave in one round; the rest waits for the next one\.",
        "Most workloads placed or preempted in one round; the rest waits for the next.",
    ),
    Word(
        r"dragon, edragon: so long the first in line waits before others shrink\.",
        "dragon, edragon: how long the first in the queue waits before others shrink.",
    ),
    Word(
        r"dragon, edragon: between the last change and the next growth\.",
        "dragon, edragon: time between the last resize and the next growth.",
    ),
    Word(
        r"edragon: a service without room keeps trainings from starting so long\.",
        "edragon: how long a service that does not fit keeps trainings from starting.",
    ),
    Word(r"Where p95 may be at the predicted load\.", "The p95 to plan for at the predicted load."),
    Word(r"p95 beyond it means too few replicas now\.", "A p95 above it means too few replicas now."),
    Word(r"Added at once then\.", "Replicas that are added at once then."),
    Word(r"Where p95 must still be with fewer replicas\.", "The p95 that must hold with fewer replicas."),
    Word(
        r"A rate this near to one that was too slow is not gone back to\.",
        "A request rate this close to one that was too slow is not tried again.",
    ),
    Word(
        r"Load must have been low for so long before a replica ends\.",
        "Load must be low for this long before a replica is removed.",
    ),
    Word(r"Part of that time that must be measured\.", "Ratio of that time that must be measured."),
    Word(
        r"Added replicas need so long to start and to show in the metrics\.",
        "How long added replicas need to start and to show in the metrics.",
    ),
    Word(r"An older sample says nothing of now\.", "Older samples are ignored."),
    Word(r"Load is predicted so far ahead\.", "How far ahead load is predicted."),
    Word(r"Over which a trend is fitted\.", "The time over which a trend is fitted."),
    Word(r"By which a trend must differ from none\.", "A trend must differ from zero by this much."),
    Word(
        "Where single workers and replicas go among the places that fit; worth",
        "How the place of a single worker or replica is chosen; worth",
    ),
    Word(r"Who decides: weft, or a reference", "The policy that decides: weft, or a reference"),
    Word(
        r"Where single workers and replicas go among the places that fit;",
        "How the place of a single worker or replica is chosen;",
    ),
    Word(
        r"The teams own ([\w.-]+) GPUs of ([\w.-]+) together, but it has ([\w.-]+)\. "
        r"Not all of them can be used at once\.",
        r"The quotas of the teams in \2 add up to \1 GPUs, but it has \3. Not all of them can be used at once.",
    ),
    Word(r"The request is not right; every fault is named\.", "The request is invalid; every error is named."),
    Word(r"There is no such thing, or none that you may see\.", "It does not exist, or you may not see it."),
    Word(r"Only JSON is offered\.", "Only JSON is available."),
    Word(r"The present state does not allow this\.", "The current state does not allow this."),
    Word(r"It is not there any more; the detail says how to go on\.", "It is gone; the detail says how to continue."),
    Word(r"Well written, but it could never be done\.", "Well-formed, but it can never be done."),
    Word(r"Something is not answering; see Retry-After\.", "A component does not answer; see Retry-After."),
    Word(r"the GPUs with who holds them and their", "the GPUs with the workloads on them and their"),
    Word(r"(machines?) with (its|their) GPUs and who holds them", r"\1 with \2 GPUs and the workloads on them"),
    Word(r"([Oo])f the remedy, as in the explanation\.", r"\1f the suggestion, as in the explanation."),
    Word(
        r"Of one that waits and has no remedies: why there are none; else empty\.",
        "Why a workload that waits has no suggestions; else empty.",
    ),
    Word(r"is tried in a trial round first;", "is tried in a dry run first;"),
    Word(r"Ask one, or choose another remedy\.", "Ask one, or choose another suggestion."),
    Word(
        r"Be told of a matter: of your own work, or with a team of all its work\.",
        "Subscribe to an event type, for your own work or a team's.",
    ),
    Word(r"Be told of it no more\.", "Unsubscribe."),
    Word(r"One matter that the asker was told of\.", "One event that the asker was notified of."),
    Word(r"End it for good\.", "Stop it permanently."),
    Word(r"Let somebody into a team, or change", "Add a user to a team, or change"),
    Word(r"Make somebody else an admin first\.", "Make another user an admin first."),
    Word(r"Make somebody else one first\.", "Make another user one first."),
    Word(
        r"Say what a team owns in a pool; what is odd about it is told, not refused\.",
        "Set a team's quota in a pool; what is odd about it is a warning, not a refusal.",
    ),
    Word(r"What one team owns in one pool\.", "The quota of one team in one pool."),
    Word(
        r"What a team owns in a pool, milli-GPU; null = no limit\.",
        "A team's quota in a pool, milli-GPU; null = no limit.",
    ),
)
NOT_HERE = r"There is no such thing here\. Check the address\."
ADDRESSES: Sequence[tuple[str, str]] = (  # of a request, and what is not there where its answer said NOT_HERE
    (r"(?:notification-rules|service-accounts|templates|workloads:diff|workloads/watch)(?=\?|$)", "such team"),
    (r"nodes/([\w-]+)", r"node \1"),
    (r"workloads/<uuid \d+>", "workload with this uid"),
    (r"trainings/<uuid \d+>", "training with this uid"),
    (r"notebooks/<uuid \d+>", "notebook with this uid"),
    (r"inferences/<uuid \d+>", "inference service with this uid"),
    (r"notification-rules/(\d+)", r"notification rule \1"),
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
NO_ADDRESS = "There is nothing at this address. Check the address."
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
        "tests/controlplane/test_roles.py::test_the_gang_is_done_when_its_workers_are_and_role_members_are_stopped_then",
    ),
    Rule(
        "What a job has attained, in a replay",
        "services: all that its places were held, a place's whole seconds once it is free, earlier attempts included "
        "(what-if counted from the episode's start and only when it was queued again; fairness counted nothing)",
        "tests/controlplane/simulator/test_replay.py::test_what_a_shrunk_worker_held_counts_once_it_is_gone",
    ),
    Rule(
        "When a service has started, in a what-if",
        "services: when all its wanted replicas run; before that it cannot be pre-empted (what-if: at its first one)",
        "tests/controlplane/simulator/test_replay.py::test_a_service_has_started_when_all_its_wanted_replicas_run",
    ),
    Rule(
        "A service of which some replicas run, in a what-if",
        "services: it is Scaling until all run that are wanted (what-if: Running)",
        "tests/controlplane/test_observe_places.py::test_a_service_is_scaling_while_some_replicas_run_and_others_come",
    ),
)


def of_address(asked: str, answer: Any) -> Any:
    """An answer with the sentence that names what its address stands for. asked: `GET /api/v1/nodes/c`."""
    for address, what in ADDRESSES:
        if found := re.search(rf" /api/v1/{address}(?=[/:?]|$)", asked):
            return translate(answer, (Word(NOT_HERE, found.expand(f"There is no {what}, or you may not see it.")),))
    return translate(answer, (Word(NOT_HERE, NO_ADDRESS),))


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
