module weft.dev/testbed/istio

go 1.26.0

require istio.io/api v1.31.4
