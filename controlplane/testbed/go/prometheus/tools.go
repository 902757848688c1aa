//go:build tools

// Package prometheus names Prometheus, which has libraries of its own versions.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
