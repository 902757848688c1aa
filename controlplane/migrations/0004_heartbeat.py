from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0003_append_only_events"),
    ]

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("loop", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("at", models.DateTimeField(help_text="Database clock of the last complete round", null=True)),
                ("holder", models.CharField(blank=True, max_length=120)),
                ("took_ms", models.FloatField(default=0)),
                (
                    "error",
                    models.CharField(blank=True, help_text="Why the newest round was not complete", max_length=400),
                ),
            ],
        ),
    ]
