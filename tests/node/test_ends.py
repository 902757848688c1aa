"""A job as a process of a real node: what the kernel and the kubelet say of its end is what Weft says."""

import os
import signal

from controlplane.models import Event
from controlplane.testbed.realnode.node import RealNode
from tests.node.product import Product

SUBMITTED_AND_RUN = [("Submitted", ""), ("Admitted", ""), ("Running", "")]


def test_a_job_runs_as_a_process_and_its_log_is_told(product: Product, node: RealNode) -> None:
    train = product.submit("train", "echo user $(id -u) of $WORLD_SIZE; sleep 2; echo done")

    product.until_phase(train, "Running")
    assert any("echo user" in command for command in node.commands.values())
    product.until_phase(train, "Succeeded")

    assert product.story(train) == [*SUBMITTED_AND_RUN, ("Succeeded", "")]
    assert (train.exit_code, train.failures) == (0, 0)
    assert product.log(train) == ["user 1000 of 1", "done"]


def test_a_job_that_fails_tells_its_exit_code(product: Product) -> None:
    broken = product.submit("broken", "echo no such file >&2; sleep 2; exit 7", retries=0)

    product.until_phase(broken, "Failed")

    assert product.story(broken) == [*SUBMITTED_AND_RUN, ("Failed", "Error")]
    assert (broken.exit_code, product.log(broken)) == (7, ["no such file"])
    assert broken.message == "Worker 0 on real ended: Error, exit code 7. No retries are left (0 allowed)."


def test_a_job_that_needs_more_memory_than_it_asked_for_is_said_to(product: Product) -> None:
    greedy = product.submit("greedy", "sleep 2; x=0123456789; while true; do x=$x$x; done", memory="32Mi", retries=0)

    product.until_phase(greedy, "Failed")

    assert product.story(greedy) == [*SUBMITTED_AND_RUN, ("Failed", "OOMKilled")]
    assert greedy.exit_code == 137
    assert greedy.message.startswith("Worker 0 on real ended: OOMKilled, exit code 137.")


def test_a_job_that_is_killed_runs_again_in_another_pod_and_both_logs_stay(product: Product, node: RealNode) -> None:
    job = product.submit("job", "echo begins; exec sleep 601", retries=1)
    product.until_phase(job, "Running")
    (process,) = (pid for pid, command in node.commands.items() if command == "sleep 601")

    os.kill(process, signal.SIGKILL)
    product.until_phase(job, "Queued")
    assert (job.exit_code, job.failures) == (137, 1)
    told = Event.objects.get(workload=job.pk, kind="Requeued")
    said = "Worker 0 on real ended: Error, exit code 137. Retry 1 of 1 in 10 s."  # by the kernel, but not for memory
    assert (told.reason, told.message) == ("Error", said)

    product.until_phase(job, "Running", attempt=2)
    (again,) = (pid for pid, command in node.commands.items() if command == "sleep 601")
    assert again != process
    for attempt in (1, 2):
        lines = product.cluster.logs(str(job.pk), attempt, 0, 100, None)
        assert [line.text for line in lines] == ["begins"], attempt
