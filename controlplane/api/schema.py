"""The OpenAPI document: built once in a process, and written once in each of its formats."""

import threading
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

_written: dict[str, bytes] = {}  # by media type
_lock = threading.Lock()  # building takes a second, so what is asked meanwhile waits for the one that builds


class Document(SpectacularAPIView):
    """Open without signing in, as YAML or JSON by the `Accept` header."""

    permission_classes = [AllowAny]
    authentication_classes: list[Any] = []
    versioning_class = None

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer with the document."""
        renderer = request.accepted_renderer
        kind = str(renderer.media_type)
        answer = HttpResponse(written(renderer), content_type=kind)
        answer["Content-Disposition"] = f'inline; filename="Weft.{renderer.format}"'
        answer["Vary"] = "Accept"
        return answer


def written(renderer: BaseRenderer) -> bytes:
    """The document as this renderer writes it. What is asked for has no part in it, so it stays as it is."""
    kind = str(renderer.media_type)
    with _lock:
        if kind not in _written:
            document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
            text = renderer.render(document, renderer_context={})
            _written[kind] = text if isinstance(text, bytes) else text.encode()
    return _written[kind]
