"""The rules of which two copies disagreed before there was one life cycle, and which of the two was right."""

from collections.abc import Sequence

from tests.sameness.word import Rule

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
