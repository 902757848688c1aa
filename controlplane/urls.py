"""All addresses: REST under /api, the admin console, pages at the root."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("api/", include("controlplane.api.urls")),
    path("admin/", admin.site.urls),
    path("", include("frontend.urls")),
]
