"""What processes do that benchmarks start beside Weft's own, where no module of a benchmark has it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from celery import current_app
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from controlplane import models
from controlplane.benchmarks.harness import siteload
from controlplane.benchmarks.reliability import node, stopping, webhook
from controlplane.benchmarks.scheduling import largeworld, podless, turnaround
from controlplane.benchmarks.serving import watched
from controlplane.cluster.unmeasured import Unmeasured
from controlplane.jobspec.spec import parse
from controlplane.loops import wiring
from controlplane.loops.wiring import Wiring
from controlplane.models import Membership, Role, User, statements
from controlplane.services.scheduling import policy
from controlplane.services.workloads import presets, submission
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.worlds.presets import Pool, Preset
from controlplane.testbed import compose
from scheduler.model.team import Team

TICK_SECONDS = 0.1  # submissions of so long go in one batch


def prepare(options: Mapping[str, Any]) -> dict[str, Any]:
    """Tables, teams and quotas of Kueue's generator."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    presets.load(preset=podless.preset(), password=connection.settings_dict["NAME"], speed=1.0)
    presets.forget_world(now=time.time())
    ((version,),) = statements.rows("SHOW server_version")
    return {"postgres": version}


def work(options: Mapping[str, Any]) -> NoReturn:
    """A worker as in production, but for the API server that it watches and commands."""
    cluster = watched.WatchedCluster(podless.preset().nodes)
    wiring.use(lambda: Wiring(cluster, Unmeasured(), wiring.holder()))
    _, _, arguments = compose.services()["worker"]["command"].partition(" controlplane.celery ")
    current_app.start(arguments.split())


def submit(options: Mapping[str, Any]) -> dict[str, Any]:
    """Submit as the generator creates: late if it must, never early."""
    due = [(at, parse(document)) for at, document in podless.arrivals(options["part"])]
    began, done = time.monotonic(), 0
    while done < len(due):
        now = time.monotonic() - began
        batch = []
        while done < len(due) and due[done][0] <= now:
            batch.append(Submission(due[done][1], actor="generator"))
            done += 1
        submission.submit_all(batch)
        time.sleep(max(0.0, TICK_SECONDS - (time.monotonic() - began - now)))
    return {"seconds": time.monotonic() - began}


def prepare_site(options: Mapping[str, Any]) -> dict[str, Any]:
    """Teams and quotas of a site, and the work that is to run."""
    User.objects.all().delete()  # the preset brings its own people
    load = siteload.Load(options["running"], options["waiting"])
    quotas = load.quotas()
    pool, teams = Pool(siteload.POOL, "A100"), tuple(Team(quota.team) for quota in quotas)
    presets.load(
        preset=Preset("site", 1.0, 0, (), (pool,), teams, quotas, ()), password=settings.ADMIN_PASSWORD, speed=1.0
    )
    presets.forget_world(now=time.time())
    return _submit_all(load.first())


def queue_at_site(options: Mapping[str, Any]) -> dict[str, Any]:
    """The work that is to wait there."""
    return _submit_all(siteload.Load(options["running"], options["waiting"]).then())


def _submit_all(jobs: Sequence[siteload.Job]) -> dict[str, Any]:
    specs = [parse(dict(one)) for one in jobs]
    for first in range(0, len(specs), 500):
        submission.submit_all([Submission(spec, actor="benchmark") for spec in specs[first : first + 500]])
    return {"submitted": len(specs)}


def prepare_turnaround(options: Mapping[str, Any]) -> dict[str, Any]:
    """One team that owns all machines; nothing is submitted here."""
    User.objects.all().delete()  # the preset brings its own people
    presets.load(preset=turnaround.preset(), password=settings.ADMIN_PASSWORD, speed=1.0)
    presets.forget_world(now=time.time())
    return {"teams": 1}


def prepare_node(options: Mapping[str, Any]) -> dict[str, Any]:
    """One team that owns a real node; what runs may be preempted at once."""
    User.objects.all().delete()
    presets.load(preset=node.preset(), password=settings.ADMIN_PASSWORD, speed=1.0)
    presets.forget_world(now=time.time())
    policy.change(changes={"scheduling": {"min_runtime_seconds": 0}}, author="benchmark")
    return {"teams": 1}


def stop_now_and_then(options: Mapping[str, Any]) -> NoReturn:
    """A worker that stops itself in mid-round."""
    stopping.run()


def prepare_pages(options: Mapping[str, Any]) -> dict[str, Any]:
    """The database of a large cluster, for its pages."""
    return largeworld.prepare({**options, "password": settings.ADMIN_PASSWORD})


def prepare_webhook(options: Mapping[str, Any]) -> dict[str, Any]:
    """A team with a member."""
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    member = User.objects.create(username=webhook.USER)
    Membership.objects.create(team=models.Team.objects.create(name=webhook.TEAM), user=member, role=Role.MEMBER)
    return {"teams": 1}
