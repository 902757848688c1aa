//go:build tools

// Package kwok names KWOK, which is built with other versions of Kubernetes' libraries than Kubernetes itself.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
