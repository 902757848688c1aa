"""A program that asks a service for ever, over several connections at once: run in a container as
`python3 -c SOURCE HOST PORT PATH CONNECTIONS`, so it imports no module of ours.

It prints a line for each answer: when it came (s), how long it took (ms), the status and what it says. Status 0: there
was no answer.
"""

import os
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException

FORBIDDEN = 403  # of a pod that the activator does not know yet


def ask(connection: HTTPConnection, path: str) -> "tuple[int, str]":
    """One request."""
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    except (OSError, HTTPException) as error:
        connection.close()
        return 0, type(error).__name__


def keep_asking(host: str, port: int, path: str) -> None:
    """One after the other over one connection."""
    connection = HTTPConnection(host, port, timeout=20)
    while True:
        began = time.monotonic()
        status, said = ask(connection, path)
        now = time.monotonic()
        line = f"{now:.3f} {1000 * (now - began):.0f} {status} {said or '-'}\n"
        os.write(1, line.encode())  # whole: `print` writes the end of a line apart, and others print meanwhile


if __name__ == "__main__":
    host, port, path, connections = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    first = HTTPConnection(host, port, timeout=20)
    while ask(first, path)[0] in (0, FORBIDDEN):
        time.sleep(0.05)
    for _ in range(connections):
        threading.Thread(target=keep_asking, args=(host, port, path)).start()
