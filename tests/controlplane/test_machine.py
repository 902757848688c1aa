"""Hypothesis drives the product through its database: services, loops, simulated cluster, faults.

1,000 steps on each of the two databases, other ones on each; ten times as many in `make nightly`. After every step the
invariants hold, and the snapshot that is kept up to date by differences is the one read from scratch. Each example runs
in one transaction that is rolled back, so all of them start from an empty database.
"""

import itertools
import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import hypothesis.strategies as st
import numpy as np
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as Step
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from controlplane.cluster.simulated import Conditions, SimulatedCluster
from controlplane.domain.cycle import digest_of
from controlplane.invariants.check import ALWAYS, check_these
from controlplane.invariants.eviction import s8_legality
from controlplane.invariants.rounds import s17_idempotence, s18_determinism
from controlplane.invariants.state import Round, State
from controlplane.loops import account, actuate, observe, scale, schedule
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.loops.schedule import Journal
from controlplane.loops.wiring import Wiring
from controlplane.models import Cycle, Event, NodePool, PriorityClass, Team, Workload
from controlplane.queries.audit import audit
from controlplane.services.errors import Refused
from controlplane.services.scheduling import clusters
from controlplane.services.tenancy import quotas
from controlplane.services.workloads import submission, workloads
from controlplane.services.workloads.submission import Submission
from controlplane.simulator.chaos.faults import BadLine, Odds
from controlplane.simulator.worlds.mix import MEMBERS, TEAMS, nodes
from controlplane.simulator.worlds.mix import quotas as quotas_of
from scheduler.model.snapshot import Snapshot
from scheduler.model.workload import ENDED, Phase
from tests.controlplane.state import job
from tests.thoroughness import at_least

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

STEPS = at_least(1000, 400)  # on each database: 2,000 in all, in CI
AT_LEAST = 200  # steps for each time that everything listed has to happen
LONGEST = 80  # steps of an example
SEEDS = {"sqlite": 1, "postgresql": 2}  # of the first run
WORLD = nodes(64, 8)
LOOPS = {"observe": observe, "schedule": schedule, "scale": scale, "actuate": actuate, "account": account}
PRIORITIES = {"low": 0, "normal": 100, "high": 200}
ended = st.sampled_from(sorted(phase.value for phase in ENDED))


class Line(BadLine):
    """The bad line, with the rest of the two ports passed through."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


class Product(RuleBasedStateMachine):
    """Teams, quotas and 64 x 8 GPUs in the database, and all loops over them.

    A rule that leaves the database alone says so: `is_as_read`. The others are followed by a reading from scratch.
    """

    steps = 0
    counts = Counter[str]()

    @initialize(seed=st.integers(0, 2**32 - 1))
    def begin(self, seed: int) -> None:
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.cluster = SimulatedCluster(WORLD, Conditions(seed=seed))
        self.line = Line(self.cluster, np.random.default_rng(seed), Odds())
        self.restart()
        self.count, self.ids = 0, random.Random(seed)
        self.state: State | None = None  # as last read
        self.is_as_read = False
        self.cycle = self.event = 0
        for team in TEAMS:
            Team.objects.create(name=team.name, parent=Team.objects.filter(name=team.parent or "").first())
        for name, value in PRIORITIES.items():
            PriorityClass.objects.create(name=name, value=value, is_default=name == "normal")
        while clusters.seen().is_first:
            observe.run_once(self.wiring)
        for quota in quotas_of(WORLD):
            self.save_quota(quota.team, quota.pool, 1.0)
        self.fill()

    def fill(self) -> None:
        """The cluster is full of what may be preempted and reclaimed: one team borrows."""
        for team, gangs in (("nlp", 4), ("vision", 2), ("search", 2)):
            for i in range(gangs):
                small = i == gangs - 1  # the last one's workers leave one by one
                for _ in range(8 if small else 1):
                    gang = {"workers": 1 if small else 8, "gpus": 8}
                    self.submit("training", team, "low", simulated={"duration": 7200}, **gang)
        for _ in range(4):
            self.a_minute_passes_with_all_loops(60)

    def save_quota(self, team: str, pool: str, part: float) -> None:
        quota = next(q for q in quotas_of(WORLD) if (q.team, q.pool) == (team, pool))
        nominal = int(quota.nominal * part)
        quotas.save(
            team=Team.objects.get(name=team),
            pool=NodePool.objects.get(name=pool),
            nominal=nominal,
            borrowing_limit=quota.borrowing,
            lending_limit=None if quota.lending is None else min(quota.lending, nominal),
            actor="admin",
        )

    # --- people -------------------------------------------------------------------------------

    @rule(
        team=st.sampled_from(MEMBERS),
        gpus=st.sampled_from((1, 2, 8)),
        workers=st.sampled_from((1, 2, 4, 8, 16)),
        least=st.floats(0.3, 1.0),
        priority=st.sampled_from(sorted(PRIORITIES)),
        minutes=st.integers(1, 40),
        fails=st.booleans(),
    )
    def submit_training(
        self, team: str, gpus: int, workers: int, least: float, priority: str, minutes: int, fails: bool
    ) -> None:
        truth: dict[str, Any] = {"duration": minutes * 60}
        if fails:
            truth |= {"fail_at": 0.5, "fail_attempts": 1}
        gang = {"count": workers, "min": max(1, int(workers * least)), "max": workers}
        self.submit("training", team, priority, gpus=gpus, workers=gang, simulated=truth, retries=1)

    @rule(team=st.sampled_from(MEMBERS))
    def an_owner_wants_its_own_back(self, team: str) -> None:
        """What was lent to a team that borrows is reclaimed, and what is low makes room for what is high."""
        self.submit("training", team, "high", gpus=8, workers=4, simulated={"duration": 600})
        self.a_minute_passes_with_all_loops(30)

    @rule(team=st.sampled_from(MEMBERS), tenths=st.integers(1, 9), minutes=st.integers(1, 40))
    def submit_notebook(self, team: str, tenths: int, minutes: int) -> None:
        share = {"guarantee": tenths / 10, "limit": 1.0, "memory": "8Gi"}
        self.submit(
            "notebook", team, "normal", resources={"gpu_share": share, "cpu": 1, "memory": "1Gi"},
            simulated={"duration": minutes * 60},
        )  # fmt: skip

    @rule(team=st.sampled_from(MEMBERS), replicas=st.integers(1, 4), priority=st.sampled_from(sorted(PRIORITIES)))
    def submit_service(self, team: str, replicas: int, priority: str) -> None:
        self.submit("inference", team, priority, gpus=2, replicas={"min": replicas, "max": 8})

    @rule(
        how=st.sampled_from((workloads.stop, workloads.suspend, workloads.resume, workloads.requeue)),
        at=st.floats(0, 1),
    )
    def a_user_changes_their_mind(self, how: Any, at: float) -> None:
        self.change(how, at, Workload.objects.exclude(phase__in=[phase.value for phase in ENDED]))

    @rule(at=st.floats(0, 1))
    def a_user_suspends_what_runs(self, at: float) -> None:
        self.change(workloads.suspend, at, Workload.objects.filter(phase=Phase.RUNNING.value))

    def change(self, how: Any, at: float, among: Any) -> None:
        alive = list(among.order_by("seq"))
        if alive:
            try:
                how(workload=alive[int(at * (len(alive) - 1))], actor="user")
            except Refused:
                return

    @rule(quota=st.sampled_from([(q.team, q.pool) for q in quotas_of(WORLD)]), part=st.sampled_from((0.5, 0.75, 1.0)))
    def an_admin_changes_a_quota(self, quota: tuple[str, str], part: float) -> None:
        self.save_quota(*quota, part)

    def submit(self, kind: str, team: str, priority: str, **asked: Any) -> None:
        self.count += 1
        spec = job(f"w{self.count}", team, kind, priority_class=priority, **asked)
        uid = UUID(int=self.ids.getrandbits(128), version=4)  # a run of this seed decides the same each time
        submission.submit_all([Submission(spec, actor="user", at=clusters.seen().now, uid=uid)])

    # --- loops --------------------------------------------------------------------------------

    @rule(name=st.sampled_from(sorted(LOOPS)))
    def a_loop_runs(self, name: str) -> None:
        LOOPS[name].run_once(self.wiring)

    @rule(seconds=st.integers(1, 300))
    def a_minute_passes_with_all_loops(self, seconds: int) -> None:
        self.cluster.advance(self.cluster.now() + seconds)
        for name in ("observe", "schedule", "actuate"):
            LOOPS[name].run_once(self.wiring)

    @rule(seconds=st.integers(1, 900))
    def time_passes(self, seconds: int) -> None:
        self.cluster.advance(self.cluster.now() + seconds)
        self.is_as_read = True

    @rule()
    def restart(self) -> None:
        """The process is killed; the next one has kept nothing."""
        self.wiring = Wiring(self.line, self.cluster, "test")
        self.is_as_read = True

    @rule()
    def everything_is_listed_anew(self) -> None:
        clusters.forget_cursor()
        observe.run_once(self.wiring)

    # --- machines -----------------------------------------------------------------------------

    @rule(
        node=st.sampled_from([n.name for n in WORLD]),
        what=st.sampled_from(("lose", "restore", "gpu", "cordon")),
        index=st.integers(0, 7),
    )
    def something_happens_to_a_node(self, node: str, what: str, index: int) -> None:
        match what:
            case "lose":
                self.cluster.lose_node(node)
            case "restore":
                self.cluster.restore_node(node)
                self.cluster.cordon(node, False)
            case "gpu":
                self.cluster.lose_gpu(node, index)
            case _:
                self.cluster.cordon(node, True)
        self.is_as_read = True

    # --- what must hold -----------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "wiring"))
    @invariant()
    def every_invariant_holds_and_the_kept_snapshot_is_the_one_from_scratch(self) -> None:
        Product.steps += 1
        self.compare(self.judge())

    def judge(self) -> Snapshot:
        """The snapshot read from scratch, in which every invariant holds."""
        made = self.newest_round()
        state = self.read(made)
        found = check_these(state, ALWAYS)
        if made is not None:
            found += s8_legality(state, max_left_out=1) + s17_idempotence(state) + s18_determinism(state)
        assert not found, "\n".join(f"{v.name} {v.subject}: {v.message}" for v in found)
        self.state, self.is_as_read = state, False
        return state.snapshot

    def read(self, made: Round | None) -> State:
        """The database read from scratch, beside what the cluster has now; what is as it was read needs no reading."""
        pods = self.cluster.observe(None).pods
        before = None if self.state is None else self.state.snapshot
        if self.is_as_read and self.state is not None and made is None:
            return replace(self.state, before=before, pods=audit.live(pods), transitions=(), round=None)
        state = audit.state(pods=pods, before=before, after_event=self.event, made=made)
        self.event = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
        return state

    def compare(self, scratch: Snapshot) -> None:
        """What is kept up to date by differences is what was read from scratch in this step."""
        keeper: SnapshotKeeper = self.wiring.kept.setdefault("keeper", SnapshotKeeper())
        journal: Journal = self.wiring.kept.setdefault("journal", Journal())
        lease = schedule.rounds.leases.of(self.wiring, "schedule").hold()
        assert lease is not None
        taken = keeper.take(lease, self.cluster.now())
        journal.add(taken)
        assert taken.snapshot.workloads == scratch.workloads
        assert np.array_equal(taken.snapshot.columns.gpu, scratch.columns.gpu)
        assert np.array_equal(taken.snapshot.columns.node, scratch.columns.node)
        # What history teaches is read again every ten minutes only.
        whole = replace(scratch, at=self.cluster.now(), history=taken.snapshot.history)
        assert taken.digest == digest_of(whole)

    def newest_round(self) -> Round | None:
        """The round that was committed in this step, rebuilt from what its Cycle row keeps."""
        decided = Cycle.objects.filter(loop="schedule", input__isnull=False).order_by("-pk")
        newest = decided.values_list("pk", "digest").first()
        if newest is None or newest[0] == self.cycle:
            return None
        self.cycle, digest = newest
        (made,) = audit.rounds(1)
        assert digest_of(made.snapshot) == digest
        return made

    def teardown(self) -> None:
        if not hasattr(self, "transaction"):
            return
        try:
            if not connection.needs_rollback:
                assert not (found := audit.violations(last_rounds=3)), found
                for counts in Cycle.objects.values_list("counts", flat=True):
                    Product.counts.update(counts)
                Product.counts.update(Event.objects.values_list("kind", flat=True))
        finally:
            transaction.set_rollback(True)
            self.transaction.__exit__(None, None, None)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("steps", [STEPS, pytest.param(10 * STEPS, marks=pytest.mark.nightly)])
def test_the_product_keeps_its_promises_through_the_database(steps: int):
    Product.steps, Product.counts = 0, Counter()
    for number in itertools.count(SEEDS[connection.vendor], len(SEEDS)):
        if Product.steps >= steps:
            break
        run(number, examples=1 + math.ceil((steps - Product.steps) / LONGEST))
    happened = ("Place", "Wait", "Evict", "Evicted", "Reserved", "Succeeded", "Requeued", "Suspended", "QuotaChanged")
    assert {kind: Product.counts[kind] for kind in happened if Product.counts[kind] < steps // AT_LEAST} == {}, (
        Product.counts
    )


def run(number: int, examples: int) -> None:
    """Run so many examples; how many steps they take is not known before.

    Hypothesis makes new examples from earlier ones, and such a copy may end anywhere. Whether one does follows from the
    seed, from the rules, and from the numbers that are written in any module of ours that is loaded.
    """
    run_state_machine_as_test(
        seed(number)(Product),
        settings=settings(
            max_examples=examples,
            stateful_step_count=LONGEST,
            deadline=None,
            database=None,
            phases=[Step.generate],  # to shrink a failure, which takes minutes, add Step.shrink
            suppress_health_check=list(HealthCheck),
        ),
    )
