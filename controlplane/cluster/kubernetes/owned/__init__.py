"""Objects of Kubernetes that own pods of workloads: looked at, held back, told, and for services of ours made."""
