"""What was said before and what is said now, I: reasons, explanations, and answers of services."""

from collections.abc import Sequence

from tests.sameness.word import Word

MESSAGES: Sequence[Word] = (
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
    Word(r"a rule without one is about all\.", "a subscription without a team covers all teams."),
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
    Word(
        r"(Give one in the job file: objective: \{p95_latency: 200ms\})\.$",
        r"\1, or {p95_first_token: 500ms}.",
    ),
)
