"""The audit log, for the OpenAPI document; queries.auditlog builds the rows."""

from rest_framework import serializers as s

from controlplane.api.serializers.workloads import Answer, Page
from controlplane.queries.audit.auditlog import OUTCOMES


class AuditEntry(Answer):
    """One request that changed something or tried to. `digest` is the SHA-256 of this row and the one before."""

    number = s.IntegerField()
    at = s.DateTimeField()
    actor = s.CharField(allow_blank=True)
    token = s.CharField(allow_blank=True)
    address = s.CharField(allow_blank=True)
    method = s.CharField()
    route = s.CharField(allow_blank=True)
    path = s.CharField()
    status = s.IntegerField()
    outcome = s.ChoiceField(list(OUTCOMES))
    kind = s.CharField(allow_blank=True)
    team = s.CharField(allow_blank=True)
    name = s.CharField(allow_blank=True)
    changes = s.ListField(child=s.DictField())
    digest = s.CharField()


class AuditPage(Page):
    """Rows, newest first."""

    results = AuditEntry(many=True)
