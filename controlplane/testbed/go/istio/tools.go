//go:build tools

// Package istio names Istio's API, of whose module only the file with its kinds is used. Nothing is compiled.
package istio

import _ "istio.io/api"
