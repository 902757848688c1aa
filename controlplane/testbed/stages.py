"""The configuration of KWOK: what its nodes and pods do; see stages.yaml for the annotations that steer them."""

import json
from pathlib import Path

import yaml

STAGES = Path(__file__).resolve().parent / "stages.yaml"
API = "kwok.x-k8s.io/v1alpha1"

START_AFTER = "kwok.weft.dev/start-after"
RUN_FOR = "kwok.weft.dev/run-for"
RUN_FOR_LABEL = "run-for"  # of the job file: what comes through Weft says it so
FAIL_AFTER = "kwok.weft.dev/fail-after"
EXIT_CODE = "kwok.weft.dev/exit-code"
REASON = "kwok.weft.dev/reason"
RESIZE = "kwok.weft.dev/resize"
IP = "kwok.weft.dev/ip"
STOP_AFTER = "kwok.weft.dev/stop-after"
NOT_READY = "kwok.weft.dev/not-ready"


NEVER = 86_400.0  # seconds; pods that are to start as late as that do not start at all
RUNNING = ("pod-start", "pod-resize", "pod-resize-refuse", "pod-succeed", "pod-fail")  # stages of what has started


def configuration(log: Path, start_after: float = 0.0, stages: Path = STAGES) -> str:
    """KWOK's configuration file: pods start `start_after` seconds after their binding, and print what is in `log`."""
    text = stages.read_text().replace("START_AFTER", f"{start_after:g}")
    found = yaml.safe_load(text)
    if start_after >= NEVER:  # KWOK would ask each change of each pod whether it is time
        found = {name: spec for name, spec in found.items() if name not in RUNNING}
    documents = [
        {"apiVersion": API, "kind": "Stage", "metadata": {"name": name}, "spec": spec} for name, spec in found.items()
    ]
    logs = [{"logsFile": str(log), "follow": False}]
    documents.append(
        {"apiVersion": API, "kind": "ClusterLogs", "metadata": {"name": "pods"}, "spec": {"logs": logs}},
    )
    return "\n---\n".join(json.dumps(document) for document in documents)
