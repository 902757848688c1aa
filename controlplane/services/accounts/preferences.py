"""What a user has seen of the pages."""

from controlplane.models import Preferences, User


def note_tour(*, user: User) -> None:
    """Remember that the tour was ended or put away: it does not come by itself again."""
    Preferences.objects.update_or_create(user=user, defaults={"has_toured": True})
