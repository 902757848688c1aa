"""What happens, as it happens: server-sent events that go on where a connection broke."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request

from controlplane.api import waiting
from controlplane.api.endpoint import Parameter, View, endpoint
from controlplane.api.feed import FEED, Inbox, or_leave
from controlplane.api.rendering import EventStream, Renderer
from controlplane.api.serializers.workloads import StreamMessage
from controlplane.api.views.workloads import TAG, WorkloadView
from controlplane.jobspec import jobfile
from controlplane.queries.accounts.access import Verb
from controlplane.queries.accounts.viewers import Viewer, viewer
from controlplane.queries.audit import feed, naming
from controlplane.queries.workloads import workloads as queries
from scheduler.model.workload import ENDED

RESUME = {"Last-Event-ID": "The id of the last event received: the stream goes on after it."}
PHASES_OF_END = frozenset(phase.value for phase in ENDED)


class Watch(View):
    """A stream."""

    renderer_classes = [EventStream, Renderer]

    def joined(self, watching: Viewer, scope: feed.Scope, after: int | None) -> tuple[Inbox, int]:
        """An inbox, and the number up to which it gets nothing: what is before is read apart.

        watching: who asks, looked up before the scope was, so that what changes in between is noticed.
        """
        inbox = FEED.join(watching, scope)
        until = inbox.after
        inbox.after = max(until, after or 0)
        return inbox, until

    def sent(
        self, inbox: Inbox, begin: list[str], missed: Sequence[Any], is_last: waiting.Told = lambda _: False
    ) -> HttpResponseBase:
        """The stream, or as much of it as there is where nothing could send the rest; names for this caller only."""
        seen = naming.seen_by(self.request.user)  # the stream ends when this changes (queries/accounts/viewers.py)

        def event(one: Any) -> str:
            return naming.told(waiting.message("event", one.pk, queries.event_row(one)), one.mentions, seen)

        begin = begin + [event(one) for one in missed]
        if waiting.has_event_loop(self.request):
            return waiting.Stream(inbox, waiting.live(inbox, begin, event, is_last))
        FEED.leave(inbox)
        return waiting.Stream(inbox, waiting.so_far(begin))


class WatchWorkloads(Watch):
    """All workloads."""

    @endpoint(
        answer=StreamMessage,
        media=EventStream.media_type,
        headers=RESUME,
        problems=(410,),
        parameters=(Parameter("team", jobfile.TEAM, "Of this team."),),
        tag=TAG,
        operation="watch_workloads",
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Stream what happens to the workloads of your teams.

        First comes `begin`, whose id is where the stream starts: open it before you list, and nothing is missed. Then
        an `event` for each that /workloads/{uid}/events would list. After a broken connection, Last-Event-ID goes on.
        """
        watching = viewer(request)
        teams = feed.teams_of(request.user)
        if (team := self.given["team"]) is not None:
            self.may(Verb.READ, team)
            teams = frozenset([team])
        after = waiting.last_event_id(request)
        inbox, until = self.joined(watching, feed.Scope(teams), after)
        with or_leave(inbox):
            begin = [waiting.message("begin", until, {"last_event_id": until})] if after is None else []
            return self.sent(inbox, begin, waiting.missed(after, inbox, until))


class WatchWorkload(Watch, WorkloadView):
    """One workload."""

    @endpoint(
        answer=StreamMessage,
        media=EventStream.media_type,
        headers=RESUME,
        problems=(410,),
        tag=TAG,
        operation="watch_workload",
    )
    def get(self, request: Request, uid: UUID) -> HttpResponseBase:
        """Stream what happens to one workload, until it has ended.

        First comes `state`, the workload as /workloads/{uid} shows it, then an `event` for each that happens. After a
        broken connection, Last-Event-ID goes on; 204 says that it has ended and all was told.
        """
        watching, workload = viewer(request), self.one(uid)
        after = waiting.last_event_id(request)
        inbox, until = self.joined(watching, feed.Scope(frozenset([workload.team.name]), uid), after)
        with or_leave(inbox):
            begin: list[str] = []
            missed = waiting.missed(after, inbox, until)
            if after is None:
                inbox.after = until = max(until, feed.newest(uid))
            now = self.one(uid)  # read after joining and after that number: it shows what was before, the rest is told
            if after is None:
                state = waiting.message("state", until, queries.row(now))
                begin = [naming.document(state.encode(), request.user).decode()]
            if now.phase in PHASES_OF_END:
                FEED.leave(inbox)
                inbox.is_over = True
                if not begin and not missed:
                    return HttpResponse(status=204)
            return self.sent(inbox, begin, missed, lambda event: event.phase in PHASES_OF_END)
