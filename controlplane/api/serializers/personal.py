"""Answers about templates, saved views and search, for the OpenAPI document; queries build them."""

from rest_framework import serializers as s

from controlplane.api.serializers.workloads import Answer, Page


class Template(Answer):
    """A job file to begin from; without a team it is the platform's."""

    id = s.IntegerField()
    team = s.CharField(allow_null=True)
    name = s.CharField()
    about = s.CharField(allow_blank=True)
    type = s.CharField()
    author = s.CharField(allow_blank=True)
    version = s.IntegerField()
    job = s.JSONField(help_text="The job file's fields that it sets: neither name nor team.")


class TemplateList(Page):
    """Templates, the newest first."""

    results = Template(many=True)


class SavedView(Answer):
    """A name for a list of workloads."""

    id = s.IntegerField()
    name = s.CharField()
    query = s.CharField(allow_blank=True, help_text="As in the page's address: phase=waiting&sort=-priority")


class SavedViewList(Page):
    """Your saved views, the newest first."""

    results = SavedView(many=True)


class Hit(Answer):
    """One thing that was found."""

    kind = s.CharField(help_text="workload, team or node")
    ref = s.CharField(help_text="A workload's uid, else the name.")
    name = s.CharField()
    about = s.CharField()


class Hits(Answer):
    """What was found, at most eight of a kind."""

    results = Hit(many=True)
