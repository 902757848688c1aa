"""`weft.report(...)`: a training says once a step what the step's time went to.

One module of the standard library that imports nothing else of ours: it may be copied into an image as it is. A report
is counted and the training goes on; it never raises. The counts are served as Prometheus text, or appended to a file
that a sidecar exports: `python -m weft.reporter FILE`. docs/reporter.md has both.
"""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

PORT = "WEFT_REPORT_PORT"  # serve at this port; processes of one pod at this plus their local rank
ADDRESS = "WEFT_REPORT_ADDRESS"  # at this address of the machine or pod; loopback unless said
FILE = "WEFT_REPORT_FILE"  # append here instead
RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")  # torchrun, Open MPI, Intel MPI
APPEND_SECONDS = 5.0  # one line of the file: a scrape is seldom more frequent
MAX_FILE_BYTES = 1 << 20  # then it begins anew: counts are sums, so an old line tells nothing more
LONGEST = 1e7  # s, samples: what is above is a mistake of units

# What may be given, the metric it is summed in, and what the metric is.
SUMS: Mapping[str, tuple[str, str]] = {
    "step_time": ("weft_training_step_seconds_total", "Time of the steps."),
    "data_wait": ("weft_training_data_wait_seconds_total", "Time in which steps waited for their input."),
    "sync_time": (
        "weft_training_sync_seconds_total",
        "Time of exchange with other workers, waiting for them included.",
    ),
    "samples": ("weft_training_samples_total", "Samples that this worker's steps used."),
}
STEPS = ("weft_training_steps_total", "Steps that were reported.")
REFUSED = ("weft_training_refused_reports_total", "Reports with a value that is no time, and were left out.")
NOISE = ("weft_training_gradient_noise_samples", "The gradient noise scale of the last report that had one.")


class _Counts:
    """The sums of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sums: dict[str, float] = {}
        self.steps = 0
        self.refused = 0
        self.noise: float | None = None
        self.appended = 0.0  # when, by the monotonic clock
        self.is_out = False  # whether where the counts go was looked up
        self.path = ""
        self.server: Any = None


_counts = _Counts()
_said: set[str] = set()


def report(
    step_time: float | None = None,
    data_wait: float | None = None,
    sync_time: float | None = None,
    samples: float | None = None,
    gradient_noise: float | None = None,
    **unknown: object,
) -> None:
    """Count one step of this worker. Times in seconds; nothing is raised, whatever is given.

    step_time is the whole step, data_wait the part that waited for input, sync_time the part that exchanged gradients
    or parameters (waiting for other workers included). samples: used by this worker in this step. gradient_noise: the
    gradient noise scale, variance over squared norm, in samples (McCandlish et al., 2018). What is left out is not
    known. A step with a value that is no time is not counted, and said once on standard error.
    """
    try:
        _count((step_time, data_wait, sync_time, samples), gradient_noise, unknown)
    except Exception as error:  # noqa: BLE001 - the training is worth more than its figures
        _say(f"a report was left out: {error!r}")


def _count(given: tuple[Any, ...], noise: Any, unknown: Mapping[str, object]) -> None:
    counts = _counts
    if unknown:
        _say(f"report() knows no {', '.join(sorted(unknown))}; it takes {', '.join(SUMS)} and gradient_noise")
    values = [(name, float(one)) for name, one in zip(SUMS, given, strict=True) if one is not None]
    last = None if noise is None else float(noise)
    is_right = given[0] is not None and all(0.0 <= one <= LONGEST for _, one in values)
    with counts.lock:
        if not is_right:
            counts.refused += 1
        else:
            counts.steps += 1
            sums = counts.sums
            for name, one in values:
                sums[name] = sums.get(name, 0.0) + one
            if last is not None and math.isfinite(last) and last >= 0.0:
                counts.noise = last
    if not is_right:
        _say(f"a report was left out: step_time is needed, and times lie between 0 and {LONGEST:g} s")
    if not counts.is_out:
        _begin(counts)
    if counts.path and time.monotonic() - counts.appended >= APPEND_SECONDS:
        _append(counts)


def text() -> str:
    """The counts of this process, as Prometheus reads them."""
    return render([_document(_counts)])


def render(documents: list[dict[str, Any]]) -> str:
    """Prometheus text of what processes counted; each is a document as the file has one a line."""
    lines = []
    for key, (metric, help_text) in {"steps": STEPS, "refused": REFUSED, **SUMS, "noise": NOISE}.items():
        kind = "gauge" if key == "noise" else "counter"
        found = [(one["local_rank"], one[key]) for one in documents if one.get(key) is not None]
        if found:
            lines += [f"# HELP {metric} {help_text}", f"# TYPE {metric} {kind}"]
            lines += [f'{metric}{{local_rank="{rank}"}} {value!r}' for rank, value in found]
    return "\n".join(lines) + "\n"


def _document(counts: _Counts) -> dict[str, Any]:
    with counts.lock:
        told: dict[str, Any] = {"local_rank": _rank(), "steps": counts.steps, "refused": counts.refused, **counts.sums}
        if counts.noise is not None:
            told["noise"] = counts.noise
    return told


def _rank() -> int:
    found = next((os.environ[name] for name in RANKS if os.environ.get(name, "").isdigit()), "0")
    return int(found)


def _begin(counts: _Counts) -> None:
    """Find out where the counts go; once in each process."""
    with counts.lock:
        if counts.is_out:
            return
        counts.is_out = True
    counts.path = os.environ.get(FILE, "")
    port = os.environ.get(PORT, "")
    if counts.path or not port:
        return
    if not port.isdigit():
        _say(f"nothing is served: {PORT} is {port!r}, and has to be a number from 0 to 65535")
        return
    counts.server = serve(os.environ.get(ADDRESS) or "127.0.0.1", int(port) + (_rank() if int(port) else 0), text)


def _append(counts: _Counts) -> None:
    """Append one line. One write to a file that is opened for appending: lines of several processes stay whole."""
    counts.appended = time.monotonic()
    line = json.dumps(_document(counts), separators=(",", ":")) + "\n"
    descriptor = os.open(counts.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if os.fstat(descriptor).st_size >= MAX_FILE_BYTES:
            os.ftruncate(descriptor, 0)
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def serve(address: str, port: int, told: Callable[[], str]) -> Any:
    """Serve what `told` says at /metrics, from a thread that ends with the process. Raises OSError."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # s: who asks and says nothing more is let go

        def do_GET(self) -> None:  # noqa: N802 - the name the standard library calls
            """Answer."""
            is_known = self.path.partition("?")[0] == "/metrics"
            body = told().encode() if is_known else b"The figures are at /metrics.\n"
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
            """Stay quiet: standard error belongs to the training."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="weft-report", daemon=True).start()
    return server


def read(path: str) -> list[dict[str, Any]]:
    """The last line of each local rank in a file of reports; what is no such line is left out."""
    found: dict[int, dict[str, Any]] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for one in _documents(file):
                found[one["local_rank"]] = one
    except FileNotFoundError:
        return []  # the training has not begun
    return [found[rank] for rank in sorted(found)]


def _documents(file: IO[str]) -> Iterator[dict[str, Any]]:
    known = {"local_rank", "steps", "refused", "noise", *SUMS}
    for line in file:
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict) and isinstance(one.get("local_rank"), int):
            yield {name: value for name, value in one.items() if name in known and isinstance(value, int | float)}


def _say(sentence: str) -> None:
    """Tell it once, on standard error."""
    if sentence not in _said:
        _said.add(sentence)
        print(f"weft: {sentence}", file=sys.stderr)


def _forget() -> None:
    """In a process that was forked: begin anew, and let go of the port, which is the parent's."""
    global _counts
    old, _counts = _counts, _Counts()
    if old.server is not None:
        old.server.socket.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def main(arguments: list[str]) -> int:
    """Export a file of reports: `python -m weft.reporter FILE [PORT [ADDRESS]]`. Runs until it is ended."""
    if not 1 <= len(arguments) <= 3 or (len(arguments) > 1 and not arguments[1].isdigit()):
        print("usage: python -m weft.reporter FILE [PORT [ADDRESS]]", file=sys.stderr)
        return 2
    default = ["", "9464", "0.0.0.0"]  # noqa: S104 - a sidecar is scraped at the pod's address
    path, port, address = [*arguments, *default[len(arguments) :]]
    server = serve(address, int(port), lambda: render(read(path)))
    print(f"weft: {path} is exported at http://{address}:{server.server_address[1]}/metrics", flush=True)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
