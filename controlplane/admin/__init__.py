"""The admin console: quotas, teams, people, priorities and pools, saved through the services; the logs, to read."""

from controlplane.admin import notices, people, policies, quotas, records, site, teams

__all__ = ["notices", "people", "policies", "quotas", "records", "site", "teams"]
