from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0028_service_state"),
    ]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="revision",
            field=models.PositiveIntegerField(
                db_default=1,
                default=1,
                help_text="A service: the number of the image and environment that it is to have.",
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="surge",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="Replicas beyond `workers` while a revision replaces the one before.",
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="rollout",
            field=models.JSONField(
                null=True,
                help_text="How far a revision has replaced the one before (lifecycle/rollouts.py); null: it has.",
            ),
        ),
        migrations.AddField(
            model_name="workload",
            name="objective_since",
            field=models.FloatField(
                null=True,
                help_text="When the objective was changed: requests of before do not count; null: never.",
            ),
        ),
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(condition=models.Q(("rollout__isnull", False)), fields=["uid"], name="workload_rollout"),
        ),
        migrations.AddField(
            model_name="placement",
            name="revision",
            field=models.PositiveIntegerField(
                db_default=1, default=1, help_text="Of the service, that its pod is made of"
            ),
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("image", models.CharField(max_length=512)),
                ("env", models.JSONField(default=dict)),
                (
                    "weight",
                    models.PositiveSmallIntegerField(
                        default=100, help_text="Percent of the requests that it is to get"
                    ),
                ),
                (
                    "made_by",
                    models.CharField(blank=True, help_text="A user, or the loop that made it", max_length=150),
                ),
                ("made_at", models.FloatField()),
                (
                    "in_force_at",
                    models.FloatField(
                        help_text="When it was last asked for: the newest but the present one is undone to"
                    ),
                ),
                (
                    "failed",
                    models.CharField(blank=True, help_text="Why it was taken back; empty: it was not", max_length=400),
                ),
                (
                    "workload",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="revisions",
                        to="controlplane.workload",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("workload", "number"), name="one_revision_per_number")],
            },
        ),
    ]
