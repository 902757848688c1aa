"""Teams and memberships."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model, Q
from django.http import HttpRequest

from controlplane.admin.base import Kept, ServiceAdmin, ServiceForm
from controlplane.models import GroupMapping, Membership, PodSecurity, Reallocation, Role, Team
from controlplane.services.accounts import groups, members
from controlplane.services.tenancy import teams


class TeamForm(ServiceForm):
    """One team."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("pod_security", "reallocation", "notebook_park_minutes", "notebook_max_milli"):
            if name in self.fields:
                self.fields[name].required = False  # left out, it stays as it is

    class Meta:
        model = Team
        fields = (
            "name", "parent", "pod_security", "shares_with_others", "share_demands", "reallocation", *teams.NOTEBOOKS
        )  # fmt: skip

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Create it, or move it in the tree; then its level."""
        parent = self.cleaned_data["parent"]
        level = PodSecurity(self.cleaned_data["pod_security"] or self.instance.pod_security)
        if self.instance.pk is None:
            team = teams.create(name=self.cleaned_data["name"], parent=parent, actor=self.actor)
        else:
            team = self.instance
            teams.move(team=team, parent=parent, actor=self.actor)
        teams.set_pod_security(team=team, level=level, actor=self.actor)
        teams.set_sharing(team=team, allowed=self.cleaned_data["shares_with_others"], actor=self.actor)
        demands = [word.strip() for word in self.cleaned_data["share_demands"].split(",") if word.strip()]
        teams.set_share_demands(team=team, demands=demands, actor=self.actor)
        mode = Reallocation(self.cleaned_data["reallocation"] or self.instance.reallocation)
        teams.set_reallocation(team=team, mode=mode, actor=self.actor)
        teams.set_notebooks(team=team, actor=self.actor, **{name: self.cleaned_data[name] for name in teams.NOTEBOOKS})
        return Team.objects.get(pk=team.pk), ()


@admin.register(Team)
class TeamAdmin(Kept):
    """The tree of teams."""

    form = TeamForm
    list_display = ("name", "parent", "pod_security", "shares_with_others", "reallocation", "managed_by")
    list_select_related = ("parent",)
    search_fields = ("name",)
    ordering = ("name",)

    def told_of(self, row: Team) -> Q:
        """The events about this team itself, its quotas and members."""
        itself = ("TeamCreated", "TeamMoved", "TeamHandedOver")
        changed = ("SharingChanged", "ShareDemandsChanged", "ReallocationChanged", "NotebookPolicyChanged")
        kinds = (*itself, "PodSecurityChanged", *changed)
        return Q(
            kind__in=(*kinds, "QuotaChanged", "QuotaRemoved", "MemberAdded", "MemberChanged", "MemberRemoved"),
            team=row.name,
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Workloads and accounts refer to the name."""
        return ("name",) if obj else ()


class MembershipForm(ServiceForm):
    """One person in one team."""

    class Meta:
        model = Membership
        fields = ("user", "team", "role")

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Add a member, or change the role."""
        user = self.cleaned_data.get("user") or self.instance.user
        team = self.cleaned_data.get("team") or self.instance.team
        role = Role(self.cleaned_data["role"])
        return members.save(team=team, user=user, role=role, actor=self.actor), ()

    def field_of(self, name: str) -> str:
        """What is wrong with the person stands at the role when the person cannot be changed."""
        return "role" if name == "username" and self.instance.pk else {"username": "user"}.get(name, name)


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    """The roles of users in teams."""

    form = MembershipForm
    list_display = ("user", "team", "role", "source")
    list_filter = ("team", "role", "source")
    list_select_related = ("user", "team")
    search_fields = ("user__username",)
    ordering = ("team__name", "user__username")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Another person or team is another membership."""
        return ("user", "team") if obj else ()

    def told_of(self, row: Membership) -> Q:
        """The events about this member of the team."""
        kinds = ("MemberAdded", "MemberChanged", "MemberRemoved")
        return Q(kind__in=kinds, team=row.team.name, data__user=row.user.get_username())

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        """Remove a member, through the service."""
        members.remove(team=obj.team, user=obj.user, actor=request.user.get_username())


class GroupMappingForm(ServiceForm):
    """One group's role in one team."""

    class Meta:
        model = GroupMapping
        fields = ("group", "team", "role")

    def carry_out(self) -> tuple[Model, Sequence[str]]:
        """Map it, or change the mapping."""
        given = self.cleaned_data
        mapping = self.instance if self.instance.pk else None
        role, team = Role(given["role"]), given["team"]
        saved = groups.save(group=given["group"], team=team, role=role, actor=self.actor, mapping=mapping)
        return saved, ()


@admin.register(GroupMapping)
class GroupMappingAdmin(ServiceAdmin):
    """Which groups of the identity provider have which roles."""

    form = GroupMappingForm
    list_display = ("group", "team", "role")
    list_filter = ("team", "role")
    list_select_related = ("team",)
    search_fields = ("group",)
    ordering = ("group", "team__name")

    def delete_model(self, request: HttpRequest, obj: GroupMapping) -> None:
        """Unmap it, through the service."""
        groups.remove(mapping=obj, actor=request.user.get_username())
