"""The dashboard, reports, SLO attainment, metrics, health."""
