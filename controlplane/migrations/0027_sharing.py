from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0026_team_other_pods"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="takes_shares",
            field=models.BooleanField(db_default=True, default=True, help_text="Labelled for shares of its GPUs"),
        ),
        migrations.AddField(
            model_name="nodepool",
            name="takes",
            field=models.CharField(
                choices=[("whole", "Whole GPUs"), ("shares", "Shares"), ("both", "Whole GPUs and shares")],
                db_default="both",
                default="both",
                help_text="For what new work may take its GPUs. Shares go only to nodes that are labelled for them.",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="team",
            name="shares_with_others",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Its shares may lie on one GPU with shares of other teams that allow it too.",
            ),
        ),
    ]
