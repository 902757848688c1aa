"""Every way to a credential: what it takes to get it, and what ends it. Pure; docs/security.md#credentials shows it.

A door is an address of authorization.txt with its method, or a command. `made_in` are the functions of ours in which a
secret is made, or a sign-in is accepted. tests/controlplane/test_credentials.py walks the table on the running
application, and looks in the source for functions and addresses that it does not name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

END_OF_PERSON = "second factor set up or taken away, password changed, a role ended, switched off"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a credential."""

    name: str
    least: str
    ends: str
    doors: tuple[str, ...]
    made_in: tuple[str, ...] = ()


WAYS = (
    Way(
        "session, by password",
        "name and password of somebody without a second factor; a platform admin who needs one gets no further than "
        "setting it up",
        f"2 h unused, 12 h, signed out; {END_OF_PERSON}",
        ("POST login/",),
        ("frontend.views.accounts.Login.form_valid", "controlplane.services.accounts.logins.check"),
    ),
    Way(
        "session, with two factors",
        "name, password, and a code of the app or a recovery code, each good once, whatever took it; until the code "
        "is given, what ends sessions ends the sign-in that waits for it",
        f"2 h unused, 12 h, signed out; {END_OF_PERSON}",
        ("POST two-steps/",),
    ),
    Way(
        "session, by single sign-on",
        "an ID token of the provider for this sign-in",
        f"2 h unused, 12 h, signed out; the provider drops the account (looked up daily); {END_OF_PERSON}",
        ("POST sso/<slug:provider_id>/login/", "GET sso/<slug:provider_id>/callback/"),
        ("controlplane.signin.oidc.login", "controlplane.signin.oidc.callback"),
    ),
    Way(
        "provider's refresh token",
        "an ID token of the provider for this sign-in; we keep it sealed, to ask the provider about the account",
        "the next sign-in, the provider drops the account; it lets nobody in here",
        ("GET sso/<slug:provider_id>/callback/",),
        ("controlplane.services.accounts.provider.signed_in",),
    ),
    Way(
        "token, by REST login",
        "name and password, and the code of a second factor; none for a platform admin who needs one and has none",
        f"90 d, revoked; {END_OF_PERSON}",
        ("POST api/v1/login",),
        ("controlplane.services.accounts.logins.check_both", "controlplane.services.accounts.tokens.create"),
    ),
    Way(
        "personal token",
        "a session, or a token of scope admin bound to no team, and then it ends no later than that token",
        "at most 365 d, revoked, with the token that it was made with; the provider drops the account; "
        f"{END_OF_PERSON}",
        ("POST settings/tokens", "POST api/v1/tokens"),
        ("controlplane.services.accounts.tokens.create",),
    ),
    Way(
        "service account",
        "admin of its team, by a session or a token of scope admin bound to no team; it signs in by tokens only",
        "ended by an admin of its team, switched off",
        ("POST api/v1/service-accounts", "POST teams/<str:team>/service-accounts/"),
        ("controlplane.services.accounts.service_accounts.create",),
    ),
    Way(
        "token of a service account",
        "a person who is admin of its team, by a session or a token of scope admin bound to no team, and then it "
        "ends no later than that token",
        "at most 365 d, revoked, its account ended; 72 h after the role of the person who made it has ended, with a "
        "member's rights at most until then, of which the team's admins get a notice",
        (
            "POST api/v1/service-accounts/<int:pk>/tokens",
            "POST teams/<str:team>/service-accounts/<int:pk>/",
        ),
        ("controlplane.services.accounts.tokens.create",),
    ),
    Way(
        "key of the second factor",
        "a session, and the password once more",
        "switched off, taken away by a platform admin, set up anew",
        ("GET two-steps/on/", "POST two-steps/on/", "GET two-steps/picture.svg"),
    ),
    Way(
        "recovery codes",
        "a session of somebody with a second factor, and the password or a code once more",
        "each used once; made anew; second factor switched off or taken away",
        ("POST two-steps/on/", "GET two-steps/codes/", "POST two-steps/codes/new/"),
    ),
    Way(
        "re-authentication",
        "a session, and the password or a code once more",
        "5 min; with its session",
        ("POST again/", "PUT again/", "POST again/code/", "PUT again/code/"),
    ),
    Way(
        "own password",
        "a session of a person who has one, and the present password",
        "changed by its person or a platform admin; switched off",
        ("POST settings/password",),
        ("controlplane.services.accounts.people.change_own_password", "controlplane.services.accounts.logins.confirm"),
    ),
    Way(
        "account with a password",
        "platform admin, by a session, and the password or a code once more (`WEFT_REAUTHENTICATE`)",
        "changed by its person or a platform admin; switched off",
        ("POST admin/controlplane/user/add/", "POST admin/controlplane/user/<path:object_id>/change/"),
        ("controlplane.services.accounts.people.create", "controlplane.services.accounts.people.change"),
    ),
    Way(
        "webhook's secret",
        "admin of its team, by a session or a token of scope admin bound to no team",
        "made anew, the webhook deleted; it signs what we send and lets nobody in",
        (
            "POST api/v1/webhooks",
            "POST api/v1/webhooks/<uuid:webhook>:secret",
            "POST settings/webhooks/",
            "POST settings/webhooks/<uuid:uid>/<slug:verb>",
        ),
        (
            "controlplane.services.notifications.webhooks.create",
            "controlplane.services.notifications.webhooks.change_secret",
        ),
    ),
    Way(
        "link that ends a rule's mails",
        "such a mail; good for that one thing",
        "the rule removed; the installation's key changed",
        ("GET notices/unsubscribe/<str:token>", "POST notices/unsubscribe/<str:token>"),
        ("controlplane.outgoing.mail.unsubscription",),
    ),
    Way(
        "first admin, people of the demo, installation's key",
        "the operator's shell",
        "as every account, but a password changed in the shell leaves tokens; the key by `SECRET_KEY_FALLBACKS`",
        ("manage.py install", "manage.py up"),
        (
            "controlplane.services.accounts.people.add_first_admin",
            "controlplane.services.workloads.presets._people",
            "controlplane.services.workloads.presets.load",
            "controlplane.management.home.password",
            "controlplane.settings._secret_key",
        ),
    ),
    Way(
        "ticket and cookie of a notebook's host",
        "a session, and a role in the notebook's team that may act there",
        "ticket: 30 s; cookie: with the session or the role, which are asked for with each request, 5 s late at most",
        (),  # its door is GET notebooks/<uuid:uid>/enter, which tests/notebookproxy walks: nothing is kept of it
        ("controlplane.security.notebookkeys._signed",),
    ),
)

# Random or signed values that let nobody in.
NO_CREDENTIALS = {
    "controlplane.security.atonce.AtOnce.__init__": "the name of a process",
    "controlplane.cluster.kubernetes.adapter.KubernetesCluster.__init__": "the name of a process",
    "controlplane.outgoing.signature.new_secret": "called where a webhook's secret is made",
    "controlplane.services.accounts.people._set_password": "called where a password is set",
}


def markdown() -> Iterator[str]:
    """The table as docs/security.md has it."""
    yield "| credential | the least it takes | its end |"
    yield "|---|---|---|"
    for way in WAYS:
        yield f"| {way.name} | {way.least} | {way.ends} |"
