"""What a step waits for in the workload that it starts after; those that exist go by its kind, as before."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0019_mentions")]

    operations = [
        migrations.AddField(
            model_name="dependency",
            name="when",
            field=models.CharField(
                blank=True,
                choices=[
                    ("succeeded", "succeeded"),
                    ("failed", "failed"),
                    ("ended", "ended"),
                    ("healthy", "healthy"),
                ],
                default="",
                db_default="",
                help_text="Empty: by the kind of `needs`.",
                max_length=9,
            ),
        ),
    ]
