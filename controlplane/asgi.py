"""ASGI entry."""

import os

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponseBase

from controlplane import garbage

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")


class Handler(ASGIHandler):
    """Django's handler, with a request's middleware and view in one thread that is entered once.

    Left to itself, Django changes between the event loop and a thread for every middleware that can be either: a dozen
    times a request, which costs more than the request. Async views and what they stream work as ever.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        """Make the chain of middleware a synchronous one."""
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer a request in its thread."""
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)


django.setup(set_prefix=False)
application = Handler()
garbage.collect_less_often()
