"""Run a command at a terminal that types what it is asked for: `python terminal.py COMMAND...`.

The first line of standard input is the password; the user is mel.
"""

import os
import pty
import sys


def main() -> int:
    """Answer each question once; return the command's exit code."""
    answers = {b"User name": b"mel\n", b"Password": sys.stdin.buffer.readline()}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
    said = b""
    while True:
        try:
            some = os.read(terminal, 1024)
        except OSError:  # the other side has closed it
            break
        if not some:
            break
        said += some
        for question in [one for one in answers if one in said.rpartition(b"\n")[2]]:
            os.write(terminal, answers.pop(question))
    sys.stdout.buffer.write(said)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
