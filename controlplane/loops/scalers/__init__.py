"""Kubernetes' own autoscalers: of adopted Deployments and of services of ours. Turned by the loop `adopt`."""
