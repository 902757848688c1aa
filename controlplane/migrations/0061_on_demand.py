from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0060_round_view'),
    ]

    operations = [
        migrations.AddField(
            model_name='placement',
            name='on_gpu',
            field=models.SmallIntegerField(help_text='A notebook on demand: index of the GPU on which its memory is, as told last; -1: in host memory; null: not told, or not on demand', null=True),
        ),
        migrations.AlterField(
            model_name='workload',
            name='offloads',
            field=models.BooleanField(db_default=False, default=False, help_text="Weights of a service's replicas on standby may wait in host memory; what a notebook has on a GPU is there while no cell runs: on demand."),
        ),
    ]
