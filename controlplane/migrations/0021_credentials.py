"""Who made a token, and with which one: so that it ends with them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import F
from django.utils import timezone


def name_issuers(apps, schema_editor):
    """People made their own tokens; who made a service account's one stands in its event."""
    Token = apps.get_model("controlplane", "Token")
    Token.objects.filter(user__service_of=None).update(issuer=F("user"))
    users = dict(apps.get_model("controlplane", "User").objects.values_list("username", "pk"))
    made = apps.get_model("controlplane", "Event").objects.filter(kind="TokenCreated")
    for token in Token.objects.filter(issuer=None):
        told = made.filter(message=f"{token.name} ({token.prefix}...)").order_by("-pk").first()
        if told is not None and told.actor in users:
            Token.objects.filter(pk=token.pk).update(issuer=users[told.actor])


def begin_to_ask(apps, schema_editor):
    """People of the provider have until WEFT_SSO_UNCHECKED_SECONDS from now to sign in once more."""
    users = apps.get_model("socialaccount", "SocialAccount").objects.values_list("user", flat=True)
    grants = apps.get_model("controlplane", "ProviderGrant").objects
    now = timezone.now()
    grants.bulk_create([grants.model(user_id=user, checked_at=now, tried_at=now) for user in sorted(set(users))])


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0020_dependency_when"),
        ("socialaccount", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="issuer",
            field=models.ForeignKey(
                blank=True,
                help_text="The person who made it. A service account's token ends with this person's role.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="issued_tokens",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="made_with",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="The token that it was made with, and whose end is its own; empty: a session.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="token",
            name="told_at",
            field=models.DateTimeField(
                blank=True, help_text="When the team's admins were told that it ends with its issuer's role.", null=True
            ),
        ),
        migrations.CreateModel(
            name="ProviderGrant",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="provider_grant",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "sealed_token",
                    models.TextField(blank=True, help_text="The refresh token, sealed; empty: it gave none."),
                ),
                (
                    "checked_at",
                    models.DateTimeField(help_text="When it last knew them: they signed in, or it was asked."),
                ),
                ("tried_at", models.DateTimeField(help_text="When it was last asked, whatever came of it.")),
            ],
        ),
        migrations.RunPython(name_issuers, migrations.RunPython.noop),
        migrations.RunPython(begin_to_ask, migrations.RunPython.noop),
    ]
