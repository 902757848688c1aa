"""What each back-end of shares has a pod say, so that it holds the share and Kubernetes accounts for it.

One module a back-end, behind one protocol (`port.py`); `choice.of(pod)` has that of a pod. What each guarantees, and
which shares it can give, is no matter of Kubernetes: `gpushare/backends`.
"""
