"""Kubernetes' own objects as workloads: Jobs, Deployments and the like with the label weft.dev/queue. Pure."""
