//go:build tools

// Package kubeflow names Kubeflow's training operator, which has libraries of its own versions.
package kubeflow

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
