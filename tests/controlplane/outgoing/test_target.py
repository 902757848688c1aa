"""Where webhooks may go: nowhere but public addresses, and those an operator allows."""

import ssl
from collections.abc import Iterator

import pytest

from controlplane.outgoing.https import Outcome, Sender, resolved
from controlplane.outgoing.target import MAX_LENGTH, Policy, TargetError, parse
from tests.receivers import Trap, trap

PUBLIC = "93.184.215.14"

# Every form in which somebody has reached what they should not. {p}: the port of a listener on 127.0.0.1 and ::1.
CORPUS = (
    # loopback, as one writes it and as resolvers read it
    "https://127.0.0.1:{p}/", "https://127.0.0.1./:{p}", "https://127.1:{p}/", "https://127.0.1:{p}/",
    "https://127.255.255.254:{p}/", "https://0x7f000001:{p}/", "https://0x7f.0.0.1:{p}/", "https://0x7f.1:{p}/",
    "https://2130706433:{p}/", "https://017700000001:{p}/", "https://0177.0.0.1:{p}/", "https://127.0.0.01:{p}/",
    "https://localhost:{p}/", "https://LOCALHOST:{p}/", "https://localhost.:{p}/", "https://[::1]:{p}/",
    "https://[0:0:0:0:0:0:0:1]:{p}/", "https://[::ffff:127.0.0.1]:{p}/", "https://[::ffff:7f00:1]:{p}/",
    "https://[::127.0.0.1]:{p}/", "https://0.0.0.0:{p}/", "https://0:{p}/", "https://[::]:{p}/",
    # addresses with IPv4 inside
    "https://[64:ff9b::7f00:1]:{p}/", "https://[64:ff9b:1::7f00:1]:{p}/", "https://[2002:7f00:1::]:{p}/",
    "https://[2001:0:7f00:1::]:{p}/", "https://[64:ff9b::a9fe:a9fe]:{p}/", "https://[::ffff:10.0.0.1]:{p}/",
    # private, shared, local, reserved
    "https://10.0.0.1:{p}/", "https://10.255.255.255:{p}/", "https://172.16.0.1:{p}/", "https://172.31.255.255:{p}/",
    "https://192.168.0.1:{p}/", "https://100.64.0.1:{p}/", "https://100.127.255.255:{p}/", "https://[fd00::1]:{p}/",
    "https://[fc00::1]:{p}/", "https://[fe80::1]:{p}/", "https://[fe80::1%25eth0]:{p}/", "https://[fec0::1]:{p}/",
    "https://198.18.0.1:{p}/", "https://192.0.2.1:{p}/", "https://192.0.0.8:{p}/", "https://192.88.99.1:{p}/",
    "https://[3fff::1]:{p}/", "https://[4000::1]:{p}/", "https://203.0.113.1:{p}/", "https://224.0.0.1:{p}/",
    "https://[ff02::1]:{p}/", "https://240.0.0.1:{p}/", "https://255.255.255.255:{p}/",
    # metadata of clouds
    "https://169.254.169.254:{p}/latest/meta-data/", "https://[::ffff:169.254.169.254]:{p}/",
    "https://[fd00:ec2::254]:{p}/", "https://100.100.100.200:{p}/", "https://168.63.129.16:{p}/",
    "https://192.0.0.192:{p}/", "https://0xa9fea9fe:{p}/", "https://2852039166:{p}/",
    # tricks with the URL itself
    "http://127.0.0.1:{p}/", "https://example.com@127.0.0.1:{p}/", "https://127.0.0.1:{p}#@example.com/",
    "https://example.com\\@127.0.0.1:{p}/", "https://127.0.0.1:{p}\\@example.com/", "https:127.0.0.1:{p}/",
    "https:///127.0.0.1:{p}/", "//127.0.0.1:{p}/", "gopher://127.0.0.1:{p}/_x", "file:///etc/passwd",
    "https://127.0.0.1:22/", "https://127.0.0.1:99999/", "https://127.0.0.1:{p}\r\nHost: x/", "https://127.0.0.1 :{p}/",
    "https://①②⑦.⓪.⓪.①:{p}/", "https://127。0。0。1:{p}/", "https://ⓛocalhost:{p}/", "https://[127.0.0.1]:{p}/",
    "https://[::1:{p}/", "https://:{p}/", "https://-a.example:{p}/", "https://a..example:{p}/",
    # names whose owner says one thing and means another
    "https://private.test:{p}/", "https://mixed.test:{p}/", "https://mapped.test:{p}/", "https://metadata.test:{p}/",
    "https://nothing.test:{p}/",
)  # fmt: skip
NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "private.test": ["127.0.0.1"],
    "mixed.test": [PUBLIC, "127.0.0.1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
    "nothing.test": [],
}


@pytest.fixture
def trapped() -> Iterator[Trap]:
    with trap() as one:
        yield one


def post(url: str, at: Trap, private: tuple[str, ...] = ()) -> Outcome:
    """Send for real, with a resolver that knows `NAMES`; others it takes apart as the machine's would."""

    def resolve(host: str, port: int) -> list[str]:
        return NAMES[host] if host in NAMES else resolved(host, port)

    policy = Policy(Policy.of(private).private, ports=(443, 8443, at.port))
    return Sender(policy, ssl.create_default_context(), resolve=resolve, seconds=2.0).post(url, b"{}", {})


def test_the_corpus_has_at_least_sixty_urls() -> None:
    assert len(set(CORPUS)) >= 60


@pytest.mark.parametrize("url", CORPUS)
def test_no_url_reaches_what_is_not_public(url: str, trapped: Trap) -> None:
    outcome = post(url.replace("{p}", str(trapped.port)), trapped)
    assert trapped.connections() == 0
    assert outcome.status is None
    assert outcome.error
    assert outcome.is_final, outcome  # it was refused, and did not just fail to connect
    led_to = [address for host, addresses in NAMES.items() if f"//{host}" in url for address in addresses]
    told = [address for address in led_to if address.partition("%")[0] in outcome.error]
    assert not told, "what a name leads to is told to whoever may name a URL"


def test_the_trap_would_notice(trapped: Trap) -> None:
    outcome = post(f"https://127.0.0.1:{trapped.port}/", trapped, private=("127.0.0.0/8",))
    assert trapped.connections() == 1
    assert not outcome.is_final


@pytest.mark.parametrize("address", ["169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "[64:ff9b::a9fe:a9fe]"])
def test_metadata_is_refused_whatever_an_operator_allows(address: str) -> None:
    everything = Policy.of(["0.0.0.0/0", "::/0"])
    with pytest.raises(TargetError, match="never allowed"):
        parse(f"https://{address}/", everything)


def test_a_name_is_asked_for_once_and_the_connection_goes_to_what_was_looked_at(trapped: Trap) -> None:
    answers = [[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]]  # a server that rebinds: first public, then ours
    dialled: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        return answers.pop(0)

    def dial(address: str, port: int, seconds: float) -> object:
        dialled.append((address, port))
        raise ConnectionRefusedError(111, "Connection refused")

    policy = Policy(ports=(443, 8443, trapped.port))
    sender = Sender(policy, ssl.create_default_context(), resolve=resolve, dial=dial)  # type: ignore[arg-type]
    outcome = sender.post(f"https://rebinds.test:{trapped.port}/", b"{}", {})
    assert outcome.error == "Connection refused"
    assert dialled == [(PUBLIC, trapped.port)]
    assert len(answers) == 2
    assert trapped.connections() == 0


def test_proxies_of_the_environment_are_not_asked(trapped: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trapped.port}")
    dialled: list[str] = []

    def dial(address: str, port: int, seconds: float) -> object:
        dialled.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    sender = Sender(Policy(), ssl.create_default_context(), resolve=lambda host, port: [PUBLIC], dial=dial)  # type: ignore[arg-type]
    sender.post("https://hooks.test/", b"{}", {})
    assert (dialled, trapped.connections()) == ([PUBLIC], 0)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://hooks.example.com", "hooks.example.com", 443, "/"),
        ("https://hooks.example.com:8443/a/b?c=d", "hooks.example.com", 8443, "/a/b?c=d"),
        ("https://HOOKS.example.com./x", "hooks.example.com", 443, "/x"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/"),
        ("https://8.8.8.8/", "8.8.8.8", 443, "/"),
        ("https://[2606:4700:4700::1111]/", "2606:4700:4700::1111", 443, "/"),
    ],
)
def test_public_targets_are_taken(url: str, host: str, port: int, path: str) -> None:
    target = parse(url, Policy())
    assert (target.host, target.port, target.path) == (host, port, path)


def test_an_operator_allows_private_receivers_by_network() -> None:
    policy = Policy.of(["10.1.0.0/16", " fd12::/16 "])
    assert parse("https://10.1.2.3/", policy).host == "10.1.2.3"
    assert parse("https://[fd12::5]/", policy).host == "fd12::5"
    with pytest.raises(TargetError):
        parse("https://10.2.0.1/", policy)


def test_a_url_that_is_too_long_is_refused() -> None:
    with pytest.raises(TargetError):
        parse("https://hooks.example.com/" + "x" * MAX_LENGTH, Policy())
