from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0048_share_backends'),
    ]

    operations = [
        migrations.AddField(
            model_name='team',
            name='notebook_extend',
            field=models.BooleanField(db_default=True, default=True, help_text='Whether its members may restart the idle time of a notebook.'),
        ),
        migrations.AddField(
            model_name='team',
            name='notebook_max_milli',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='What a notebook of it may be guaranteed, in thousandths of a GPU; 0: as much as quota allows.'),
        ),
        migrations.AddField(
            model_name='team',
            name='notebook_park_minutes',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='Minutes without use after which its notebooks are parked at the latest; 0: as job files say.'),
        ),
    ]
