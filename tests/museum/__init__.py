"""The failure museum: bugs that other systems had in the field, each as a test that we do not have them.

One hall for each class of failure, one test for each exhibit, named after the upstream issue
(`test_<system>_<issue>_<what holds here>`). What the pure core can show is in `test_decisions.py`; what needs rows,
loops and a cluster is in `test_loops.py`. `make check` runs the first, `make test` both. A behaviour that other tests
cover in depth has its short test here all the same, so that the list is whole.

| class | exhibits |
|---|---|
| decided on a half-loaded cache | HAMi 2812; k8s 45220, kueue 1654 and 10495 |
| assumed is not bound | kueue 804, k8s 102339, volcano 1383 (both files) |
| bound by name, not by uid | k8s 102761, HAMi 2640 |
| crash between a call outside and its commit | dstack 707 and 3130 |
| process-local locks, lost updates | dstack 3683, KAI 522 |
| stuck terminating, finalizers | kueue 1450 (both files) |
| quota freed too soon or never | kueue 14609 and 14811, k8s 24494 |
| zombies | kueue 10274, awx 4911 |
| livelock and thrash | kueue 3779, 2821, 6947 and 14543, KAI 848 and 2074 |
| starvation | kueue 8309, volcano 748 and 3869 |
| sharing that leaks or lies | HAMi 404, 1491 and 2862, KAI 464, tensor-fusion 478 |
| lost GPUs | volcano 1818 (both files) |
| a reaper that kills the living, or never comes | awx 12326 and 11572 |
| wall clock | openpbs 218, celery 4041 |

Left out, as no scheduler has them:

- *Database deadlocks* (airflow 23361 and others, dstack 3219) are of the order of row locks in transactions that
  several processes hold at once; one holder of a lease decides here. `tests/controlplane` runs on Postgres for them.
- *Tenants that forge the scheduler's state* (HAMi 3041, KAI 2068, argo 13871) come in through pods and labels: the
  builder of pods and the fences of the API server keep them out (`tests/controlplane/kubernetes/test_pods.py` and
  `test_fences.py`, `tests/controlplane/api/test_access.py`).
- Further issues of a class whose failure is the same as an exhibit's: volcano 5174, 2821, 5819, 6010, 4888 and 1052,
  kube-batch 909, HAMi 338, 602, 1557 and 2923, volcano 5532, dcu-vgpu 11, dstack 1632 and 3471, kueue 1339, 1352,
  13830, 6757, 15554, 13797 and 2270, volcano 3373, 5805 and 6010, kuberay 3860, 3903 and 2161, KAI 65, GPUMounter 9,
  awx 13350, 11301 and 16467, kueue 1542.
"""
