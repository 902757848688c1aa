"""The load of `kubernetes-bind`, and the processes of ours that carry it: gangs of four, all waiting for a place.

`prepare` makes tables, teams and the waiting workloads. `worker` runs the production loops: at first without
those that decide and act, so that every pod is prepared and pending; then, at a line on standard input, all of them.
`submit` submits one job after the other to a worker as in production, through the broker.
"""

import json
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

from django.core.management import call_command
from django.db import connection

from controlplane.jobspec.spec import Spec, parse
from controlplane.loops.threads import LOOPS, Loops
from controlplane.models import Workload
from controlplane.services.workloads import presets, submission
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.worlds.presets import Pool, Preset
from gpushare.gpu import WHOLE
from scheduler.model.team import Quota, Team

TEAMS, GANG, GPUS_PER_NODE = 10, 4, 8
A100 = Pool("a100", "A100")
BATCH = 500  # workloads in one transaction
TEAM_NAMES = tuple(f"team-{number}" for number in range(TEAMS))
DECIDING = ("schedule", "actuate", "scale", "account", "audit")


def team(number: int) -> str:
    """The name of a team."""
    return TEAM_NAMES[number % TEAMS]


def preset(nodes: int) -> Preset:
    """Ten teams that own the cluster in equal parts, and may borrow from each other."""
    nominal = nodes * GPUS_PER_NODE * WHOLE // TEAMS
    return Preset(
        name="binding",
        load=1.0,
        seed=0,
        nodes=(),
        pools=(A100,),
        teams=tuple(map(Team, TEAM_NAMES)),
        quotas=tuple(Quota(name, A100.name, nominal, nominal) for name in TEAM_NAMES),
        arrivals=(),
    )


def job(number: int, workers: int = GANG, name: str = "gang") -> Spec:
    """One gang of one GPU each."""
    return parse(
        {
            "type": "training",
            "name": f"{name}-{number}",
            "team": team(number),
            "image": "registry.example/train:1",
            "command": ["train"],
            "resources": {"gpus": 1, "cpu": 4, "memory": "16Gi"},
            "workers": {"count": workers},
        }
    )


def prepare(options: Mapping[str, Any]) -> dict[str, Any]:
    """Tables, teams, quotas; with `count`, so many gangs that wait."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    presets.load(preset=preset(options["nodes"]), password=connection.settings_dict["NAME"], speed=1.0)
    presets.forget_world(now=time.time())
    specs = [job(number) for number in range(options["count"])]
    for first in range(0, len(specs), BATCH):
        at = time.time()
        submission.submit_all([Submission(spec, actor="benchmark", at=at) for spec in specs[first : first + BATCH]])
    return {"workloads": len(specs)}


def work(options: Mapping[str, Any]) -> dict[str, Any]:
    """The loops in two steps; ends at the end of standard input, and tells its peak memory."""
    watching = Loops(loops={name: run for name, run in LOOPS.items() if name not in DECIDING})
    watching.start()
    sys.stdin.readline()
    before = time.process_time()
    deciding = Loops(loops={name: run for name, run in LOOPS.items() if name in DECIDING})
    deciding.start()
    sys.stdin.readline()
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for loops in (deciding, watching):
        loops.stop()
    return {"mib": peak / 1024, "cpu_seconds": seconds}


def submit(options: Mapping[str, Any]) -> dict[str, Any]:
    """Submit a job of one GPU for each line on standard input, and print its uid and when that was."""
    for number, _ in enumerate(sys.stdin):
        spec = job(number, 1, "one")
        began = time.time()
        (made,) = submission.submit_all([Submission(spec, actor="benchmark")])
        sys.stdout.write(json.dumps({"uid": str(made.pk), "at": began}) + "\n")
        sys.stdout.flush()
    return {"workloads": Workload.objects.count()}
