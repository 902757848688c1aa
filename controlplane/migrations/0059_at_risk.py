from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0058_batch'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='at_risk',
            field=models.BooleanField(db_default=False, default=False, help_text='A service: whether it is at risk of missing its objective, or has.'),
        ),
    ]
