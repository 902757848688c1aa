from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0004_heartbeat"),
    ]

    operations = [
        migrations.AddField(
            model_name="team",
            name="pod_security",
            field=models.CharField(
                choices=[("restricted", "Restricted"), ("baseline", "Baseline: may run as root")],
                db_default="restricted",
                default="restricted",
                help_text="Level of its namespace; `manage.py namespaces --apply` carries it to the cluster.",
                max_length=10,
            ),
        ),
    ]
