"""The shape of refusals."""

from rest_framework import serializers


class Fault(serializers.Serializer[object]):
    """One fault of a request."""

    field = serializers.CharField(allow_blank=True, help_text="Dotted path; empty: the request as a whole.")
    message = serializers.CharField(help_text="What is wrong and what to do.")


class Problem(serializers.Serializer[object]):
    """RFC 9457 problem document."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="A word for machines.")
    detail = serializers.CharField()
    errors = Fault(many=True)  # type: ignore[assignment]
