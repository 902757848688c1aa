from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0053_share_labels'),
    ]

    operations = [
        migrations.AddField(
            model_name='serviceday',
            name='p95_of',
            field=models.CharField(db_default='answer', default='answer', help_text='What that latency is of', max_length=16),
        ),
        migrations.AddField(
            model_name='servicewindow',
            name='lent_to',
            field=models.JSONField(help_text="The same by the id of the gang's team; null: no standby", null=True),
        ),
    ]
