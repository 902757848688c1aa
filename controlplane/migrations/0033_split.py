from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0032_forecast_help"),
    ]

    operations = [
        migrations.AlterField(
            model_name="action",
            name="verb",
            field=models.CharField(help_text="start, stop, resize, split or cordon", max_length=10),
        ),
    ]
