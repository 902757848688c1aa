"""Where a container with a share has what holds it to that, and what its pod asks the node for."""

RESOURCE = "weft.dev/gpu-share"  # one for each container; the node's device plugin gives it (kubelet/plugin.py)
ON_DEMAND = (
    "weft.dev/gpu-on-demand"  # offered where the node's daemon can move memory between GPUs; nothing asks for it
)
FOLDER = "/run/weft/gpu"  # the share's socket and page
PROGRAMS = "/opt/weft/enforcer"  # what `build` makes
