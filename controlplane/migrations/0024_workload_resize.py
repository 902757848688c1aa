from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0023_roles_help"),
    ]

    operations = [
        migrations.AddField(
            model_name="workload",
            name="resize",
            field=models.JSONField(
                help_text="CPU and memory that are being changed in place (lifecycle/resizing.py); cpu_milli and memory are the larger of before and after meanwhile.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="workload",
            index=models.Index(
                condition=models.Q(("resize__isnull", False)),
                fields=["uid"],
                name="workload_resize",
            ),
        ),
    ]
