//go:build tools

// Package jobset names JobSet's controller, which has libraries of its own versions.
package jobset

import _ "sigs.k8s.io/jobset"
