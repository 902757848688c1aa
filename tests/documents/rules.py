"""How the commands of the documents are run here: which are not, what stands for a placeholder, as whom."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.documents.reading import Command

# At most ten. Each is a pattern of whole commands, without their comments, and the reason why no test runs them.
NOT_RUN: Mapping[str, str] = {
    r"(WEFT_INSTALL=no )?make (test|nightly)": "it is the tests themselves",
    r"make sbom": "test_supply_chain.py runs its script twice",
    r"docker compose .*": "needs a container engine; test_compose.py runs what the file states, as processes",
    r"python -m controlplane\.(runtime\.liveness|externalmetrics|notebookproxy) .*": (
        "asks in a container, or serves until it is ended; test_compose.py and tests/adopted run them"
    ),
    r"manage\.py demo_week": "takes minutes and writes to the repository; test_week_made.py makes a part of the week",
    r"(manage\.py reproduce (training|dragon|nearchus|seeds|dynamoml|poster)|python -m \S+\.slo\.choice)( .*)?": (
        "measures for minutes to hours; tests/mix and test_reproduce_nearchus.py draw made-up results and play some"
    ),
    r"manage\.py (activator|admission|leave)( .*)?": (
        "serves until it is ended, or takes Weft out of a namespace; tests/activator and tests/adopted run them"
    ),
    r"pip install .*": "needs a package index; test_distributions.py builds both wheels and runs what is in them",
    r"(make|manage\.py) (benchmark|figures) ?(.*NAME=\S+|MEASURE=1|[a-z-]+)": (
        "measures for minutes to hours, and writes to docs/; test_figures.py measures, test_commands.py knows the names"
    ),
}
MAX_NOT_RUN = 10

# A sentence that names a command without its arguments: its help is asked for, so the command has to exist.
MENTION = re.compile(r"(weft (?!(?:logout|whoami|token|queue|top|quota|usage)$)[a-z-]+)(?: -f)?")

# What stands for a placeholder. `$NAME` are variables of the shell that runs a document; session.py sets them.
BOUND: Mapping[str, str] = {
    r"https?://(weft\.example|127\.0\.0\.1:8000)": "$ADDRESS",
    r"\bURL\b": "$ADDRESS",
    r"^make reset$": "WEFT_HOME=$SPARE make reset",  # the one that runs is in use
    r"^((?:\.venv/bin/)?weft login (?!.*--(?:token|password-stdin)).*)": r"terminal \1",
    r"--token -$": "--token - < token-file",
    r"\$\{\{[^}]*\}\}": "7",  # GitHub fills in the number of its run
    r"\bNAME\b": "$WAITING",
    r"\bKIND\b": "$KIND",
    r"\bCYCLE\b": "$CYCLE",
    r"\bNUMBER:DIGEST\b": "$HEAD",
    r"service-accounts/7/": "service-accounts/$(new_id)/",
    r"KUBECONFIG=provisioner\.yaml": "KUBECONFIG=$(provisioner)",
    r"^manage\.py check --deploy": "WEFT_TLS=true manage.py check --deploy",
    r"\bmy\.csv\b": "$FILES/my.csv",
    r"--team TEAM\b": "--team nlp",
    r"\bgpu-7\b": "a",  # a node of the test cluster
    r"^kubectl describe pod$": "kubectl describe pod --all-namespaces",
    r"^manage\.py export$": "manage.py export --port 0",
}

# Servers: they run until Ctrl-C. With each, what it says once it is ready.
FIRST = "make up"  # this one runs beside all others
SERVERS: Mapping[str, str] = {
    r"make up.*": r"Weft runs at",
    r"make test-cluster.*": r"Kubernetes runs at",
    r"manage\.py export.*": r"Metrics of the simulated cluster are at",
    r"(\.venv/bin/)?python -m controlplane\.enforcer --folder \S+( --metrics-port \d+)?": (
        r"Shares below .* are held to their parts"
    ),
}

# Who is signed in, by WEFT_URL and WEFT_TOKEN; in the other documents it is mel, a member of team nlp.
ADMINS = ("docs/accounts.md", "docs/quotas.md", "docs/explanations.md", "docs/kubernetes.md", "docs/revisions.md",
          "docs/diagnosis.md", "docs/notebooks.md", "docs/shared-gpus.md")  # fmt: skip
# Documents that sign in by `weft login` themselves.
SIGN_IN = ("README.md", "docs/cli.md")


@dataclass(frozen=True, slots=True)
class Step:
    """A command as it is run."""

    command: Command
    text: str


def plain(command: Command) -> str:
    """A command without the comment behind it, and the short form of Weft's own programs."""
    text = re.sub(r"\s+# .*$", "", command.text) if "\n" not in command.text else command.text
    return re.sub(r"\.venv/bin/(weft|python manage\.py)\b", lambda found: found[1].split()[-1], text).strip()


def not_run(command: Command) -> str:
    """Why this command is not run; empty if it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, plain(command))), "")


def fill(text: str) -> str:
    """Put what is bound in place of the placeholders."""
    for placeholder, value in BOUND.items():
        text = re.sub(placeholder, value, text)
    return text


def server(command: Command) -> str:
    """What a server says once it is ready; empty if the command is none."""
    return next((ready for pattern, ready in SERVERS.items() if re.fullmatch(pattern, plain(command))), "")


def step(command: Command) -> Step:
    """The command with its placeholders filled in."""
    text = command.text if "\n" in command.text else re.sub(r"\s+# .*$", "", command.text)
    if mention := MENTION.fullmatch(plain(command)):
        return Step(command, f"{mention[1]} --help")
    return Step(command, fill(text))
