"""A gang on a real node: its workers meet at the names that Weft gives them, and sum over the pod network."""

from tests.node.product import GPUS, Product

STEPS = 5
# All-reduce by the worker of rank 0: it sums what all have, and each goes on with the sum.
TRAIN = f"""
import json, os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
first = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
own = socket.gethostbyname(socket.gethostname())

def reach():
    for _ in range(300):  # the others' names are known only once they have started
        try:
            return socket.create_connection(first, 5)
        except OSError:
            time.sleep(0.1)

if rank == 0:
    server = socket.create_server(("", first[1]))
    peers = [server.accept() for _ in range(size - 1)]
    print("peers", *(address[0] for _, address in peers), flush=True)
    files = [peer.makefile("rw") for peer, _ in peers]
else:
    files = [reach().makefile("rw")]
value = rank + 1
for step in range({STEPS}):
    if rank == 0:
        value += sum(json.loads(file.readline()) for file in files)
    for file in files:
        print(json.dumps(value), file=file, flush=True)
    if rank > 0:
        value = json.loads(files[0].readline())
print("sum", value, "at", own, flush=True)
time.sleep(1)
"""


def test_workers_of_a_gang_sum_over_the_pod_network(product: Product) -> None:
    program = {"image": "registry.example/python:1", "command": ["python3", "-c"]}
    gang = product.submit("gang", TRAIN, workers=GPUS, **program)

    product.until_phase(gang, "Succeeded")

    (peers, first), (second,) = product.log(gang, 0), product.log(gang, 1)
    total = 3 * 2 ** (STEPS - 1)  # 1 + 2 in the first step, then twice as much in each
    assert [line.split()[:2] for line in (first, second)] == [["sum", str(total)]] * 2
    assert peers.split()[1] == second.split()[3] != first.split()[3]
    assert gang.failures == 0
