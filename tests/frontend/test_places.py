"""One page tells of one moment: the place in the queue, what is ahead, and why a workload waits."""

import re
from datetime import UTC, datetime

from controlplane.models import Event, Workload
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document
from tests.frontend.test_pages import queued


def test_what_waits_for_other_work_is_listed_apart_and_takes_no_place(bare: World, visit: Visit) -> None:
    for number in range(3):
        step = bare.add(document("training", f"step-{number}", "nlp"))
        Workload.objects.filter(pk=step.pk).update(unmet=["prepare"], priority=900)
    huge = bare.add(document("training", "huge", "nlp", resources={"gpus": 8}, workers={"count": 99}))
    client = visit("admin")
    assert queued(client) == [(1, "huge"), (None, "step-0"), (None, "step-1"), (None, "step-2")]
    text = client.get("/queue/").content.decode()
    assert text.index("huge") < text.index("Not in the queue yet") < text.index("step-0")
    assert "1 in the queue of all teams" in text
    page = client.get(f"/workloads/{huge.pk}/").content.decode()
    assert "position 1 of 1 in the queue" in page
    step = Workload.objects.get(name="step-0")
    assert " in the queue</span>" not in client.get(f"/workloads/{step.pk}/").content.decode()


def test_one_page_says_one_place_and_one_reason(bare: World, visit: Visit) -> None:
    """The head, the order check and the place are of one snapshot, whatever is stored or was told before."""
    for number in range(4):
        bare.add(document("training", f"big-{number}", "nlp", resources={"gpus": 8}, workers={"count": 5}))
    bare.add(document("training", "last", "nlp", resources={"gpus": 7}, workers={"count": 5}))
    old = {"reason": "BehindHigherPriority", "message": "Is behind the one of yesterday."}
    for w in Workload.objects.filter(name__in=("big-3", "last")):
        Workload.objects.filter(pk=w.pk).update(**old)
        about = {"workload": w.pk, "team": "nlp", "name": w.name, "actor": "loop:schedule", "cluster_at": NOW, **old}
        Event.objects.create(kind="Waiting", at=datetime.now(UTC), **about)
    told = []
    for w in Workload.objects.filter(name__in=("big-3", "last")):
        for part in ("", "?part=page"):
            answer = visit("mel").get(f"/workloads/{w.pk}/{part}")
            text = re.sub(r"<[^>]+>", " ", answer.content.decode())
            (place,) = re.findall(r"position (\d+) of (\d+) in the queue", text)
            told.append(place)
            ahead = re.findall(r"(\d+) ahead of it in the queue", text)
            assert ahead == ([] if w.name == "big-3" else [str(int(place[0]) - 1)])
            assert len(set(re.findall(r"Behind [^,.(]+", text))) == (w.name == "big-3")
            assert "yesterday" not in text
    assert told == [("4", "5")] * 2 + [("5", "5")] * 2
