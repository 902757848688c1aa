"""What our accounts did in all Kubernetes tests of this run, by the API servers' own logs. It runs last (conftest.py).

0 rights unused, 0 denied, and 0 writes but to the namespaces of teams, to our own cluster objects, and to
`unschedulable` of nodes. That no right is unused is judged where the tests have run that use them all (audited.WHOLE).
"""

import pytest

from controlplane.testbed.kubernetes import TestCluster
from tests import audited


def test_our_accounts_used_every_right_wanted_no_other_and_wrote_only_what_is_ours(
    kubernetes_server: TestCluster, request: pytest.FixtureRequest
) -> None:
    audited.hear(kubernetes_server)
    assert audited.faults(audited.CLUSTERS.values(), is_whole=is_whole(request.session)) == []


def is_whole(session: pytest.Session) -> bool:
    """Whether all tests of these files were to run, and no program was missing for any."""
    ran = {item.path.relative_to(session.config.rootpath).as_posix() for item in session.items}
    has_all = {f"tests/{name}" for name in audited.WHOLE} <= ran
    return has_all and not session.config.option.keyword and not session.config.stash.get(audited.MISSING, False)
