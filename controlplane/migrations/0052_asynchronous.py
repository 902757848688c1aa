from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0050_team_notebooks'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='asynchronous',
            field=models.BooleanField(db_default=False, default=False, help_text='No worker of this training waits in a step for the slowest one.'),
        ),
    ]
