"""What was said before and what is said now, II: help of settings and fields, and descriptions of the schema."""

from collections.abc import Sequence

from tests.sameness.word import Word

DESCRIPTIONS: Sequence[Word] = (
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
    Word(r"\bsurplus_after_seconds, max_moves\b", "surplus_after_seconds, lend_after_seconds, harvest, max_moves"),
    Word(r"\bdragon_hold_seconds, dragon_high_priority\.", "dragon_hold_seconds, dragon_high_priority, cells."),
    Word(r"\bretries, ports, framework\b", "retries, ports, batch, framework"),
    Word(r"\bmax_duration, after, labels\b(?!, cell)", "max_duration, after, labels, cell"),
    Word(r"\bidle, expected_duration\b", "idle, on_demand, expected_duration"),
    Word(r"Fields here: count, min, max\.", "Fields here: count, min, max, asynchronous."),
    Word(
        r"List the GPUs with the workloads on them and their last measured use\.",
        "List the GPUs with who holds what of each and their last measured use.",
    ),
    Word(r"worth and fgd need 50 submissions first\.", "worth and fgd need 10 submissions with GPUs first."),
)
