"""What makes the product one's own: saved lists of workloads, templates to submit from, and what one has seen."""

from django.db import models
from django.db.models import Q

from controlplane.models.team import Team, User
from scheduler.model.workload import Kind


class SavedView(models.Model):
    """One user's name for a list of workloads: the filters and the order of its address."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=500, blank=True, help_text="As in the address: phase=waiting&sort=-priority")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="one_saved_view_per_name")]

    def __str__(self) -> str:
        return self.name


class Template(models.Model):
    """A job file to begin from, without name and team. Without a team it is the platform's, for all teams."""

    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="templates")
    name = models.CharField(max_length=40)
    about = models.CharField(max_length=200, blank=True)
    kind = models.CharField(max_length=10, choices=[(k.value, k.value) for k in Kind])
    job = models.JSONField(help_text="The job file's fields that it sets")
    author = models.ForeignKey(User, null=True, on_delete=models.SET_NULL)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="one_template_per_team_and_name"),
            models.UniqueConstraint(fields=["name"], condition=Q(team=None), name="one_platform_template_per_name"),
        ]

    def __str__(self) -> str:
        return self.name


class Preferences(models.Model):
    """What a user has seen of the pages."""

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="preferences")
    has_toured = models.BooleanField(default=False, help_text="The first visit's tour was ended or put away")

    def __str__(self) -> str:
        return f"preferences of {self.user_id}"
