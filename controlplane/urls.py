"""All addresses: REST under /api, the admin console, pages at the root."""

from django.contrib import admin
from django.urls import include, path

from controlplane.api.views.health import healthz, prometheus, readyz

urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", prometheus),
    path("api/", include("controlplane.api.urls")),
    path("admin/", admin.site.urls),
    path("", include("controlplane.signin.addresses")),
    path("", include("frontend.urls")),
]
