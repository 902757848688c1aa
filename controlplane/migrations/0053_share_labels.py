from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0052_asynchronous'),
    ]

    operations = [
        migrations.AddField(
            model_name='workload',
            name='share_labels',
            field=models.CharField(blank=True, db_default='', default='', help_text='Affinity, anti-affinity and exclusion of the share, between commas; empty: it has none.', max_length=191),
        ),
    ]
