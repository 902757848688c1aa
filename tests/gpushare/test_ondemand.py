from collections.abc import Mapping

import hypothesis
from hypothesis import strategies as st

from gpushare import residency
from gpushare.gpu import WHOLE
from gpushare.ondemand import Rules, Start, Way, choose, parts, to_park
from gpushare.residency import Gpu, Node, Notebook

RULES = Rules(young=10, volume_after=20, park_after=100)


def world(text: str) -> list[Node]:
    """A line a node: its GPUs and what is on each, between bars; a name with ! computes; the number: since when.

    All GPUs have 100 MiB, notebooks need 30. After the last bar: what is in host memory.
    """
    made = []
    for line in text.strip().splitlines():
        *gpus, host = line.strip().split("|")
        made.append(Node(tuple(Gpu(100, _notebooks(gpu)) for gpu in gpus), 1000, _notebooks(host)))
    return made


def _notebooks(text: str) -> tuple[Notebook, ...]:
    found = []
    for word in text.split():
        name, _, since = word.partition(":")
        found.append(Notebook(name.strip("!"), 30, int(since or 0), computes="!" in name))
    return tuple(found)


def chosen(text: str, name: str, at: int, rules: Rules = RULES) -> Start | None:
    nodes = world(text)
    for index, node in enumerate(nodes):
        for one in node.notebooks:
            if one.name == name:
                return choose(nodes, one, index, at, rules)
    return choose(nodes, Notebook(name, 30, 0), None, at, rules)


def test_its_own_gpu_if_no_cell_runs_there() -> None:
    assert chosen("a:5 b:1 | | ", "a", 9) == Start(0, 0, Way.STAY)


def test_else_the_idle_gpu_of_its_node_with_the_least_memory_in_use() -> None:
    assert chosen("a:5 b!:8 | c:1 d:2 | e:1 | ", "a", 9) == Start(0, 2, Way.SWITCH)
    assert chosen("b!:8 | c:1 | a:5", "a", 9) == Start(0, 1, Way.SWITCH), "from host memory"


def test_the_longest_idle_ones_make_room() -> None:
    assert chosen("a:5 b!:8 | c:3 d:2 e:4 | ", "a", 9) == Start(0, 1, Way.SWITCH, ("d",))


def test_another_node_only_by_the_volume_and_so_only_after_it_was_idle_for_long() -> None:
    full = """
        a:5 b!:8 | c!:8 |
        d:1      |      |
    """
    assert chosen(full, "a", 24) == Start(0, 1, Way.SWITCH), "it shares: all are old by then"
    assert chosen(full, "a", 25) == Start(1, 1, Way.VOLUME)
    assert chosen(full, "new", 9) == Start(1, 1, Way.VOLUME), "one that is parked"


def test_of_other_nodes_the_one_with_most_idle_gpus_whose_host_memory_can_hold_it() -> None:
    nodes = world("""
        a:0 b!:1 |     |   |
        c!:1     |     |   |
        d!:1     | e!:1|   |
    """)
    nodes[0] = Node((Gpu(100, nodes[0].gpus[0].residents),), 1000)
    full = Node(nodes[1].gpus, host_memory=31)  # c has booked 30
    assert choose([nodes[0], full, nodes[2]], nodes[0].gpus[0].residents[0], 0, 50, RULES) == Start(2, 2, Way.VOLUME)
    assert choose(nodes, nodes[0].gpus[0].residents[0], 0, 50, RULES) == Start(1, 1, Way.VOLUME)


def test_no_gpu_idle_it_shares_one_where_all_cells_are_old() -> None:
    assert chosen("b!:95 | c!:1 | d!:89 | a:99", "a", 100) == Start(0, 1, Way.SWITCH), "the youngest cell is the oldest"
    assert chosen("b!:95 | c!:1 e!:97 | d!:98 | a:99", "a", 100) == Start(0, 0, Way.SWITCH), (
        "the fewest young, the oldest"
    )


def test_without_a_driver_that_moves_it_stays_and_shares() -> None:
    still = Rules(young=10, volume_after=20, park_after=100, can_move=False)
    assert chosen("a:5 b!:8 | | ", "a", 9, still) == Start(0, 0, Way.STAY)
    assert chosen("b!:8 c:1 d:1 | e:1 f:2 g:3 | ", "new", 9, still) is None, "there is room only if one leaves"
    assert chosen("b!:8 c:1 d:1 | e:1 f:2 g:3 | ", "new", 9) == Start(0, 1, Way.VOLUME, ("e",))


def test_it_waits_where_what_computes_leaves_no_memory() -> None:
    assert chosen("a!:1 b!:1 c!:1 | d!:1 e!:1 f!:1 | g:3", "g", 9) is None


def test_what_was_idle_for_long_is_parked_from_host_memory_too() -> None:
    (node,) = world("a:0 b!:0 c:1 | | d:0 e:50")
    assert to_park(node, 100, RULES) == ("a", "d")


def test_young_cells_go_first_and_equals_share_evenly() -> None:
    (node,) = world("a!:0 b!:95 c!:93 d:1 | e!:0 f!:2 | ")
    promised = dict.fromkeys("abcdef", 20) | {"e": 200}
    assert parts(node.gpus[0], promised, 100, RULES) == {"b": 490, "c": 490, "a": 20}
    assert parts(node.gpus[1], promised, 100, RULES) == {"e": 590, "f": 410}, "all are old"
    assert parts(node.gpus[1], promised, 5, RULES) == {"e": 590, "f": 410}, "all are young"
    assert parts(node.gpus[1], promised, 11, RULES) == {"e": 200, "f": 800}, "each has what it was promised"


class Cluster:
    """Two small nodes on which cells begin and end as production has them."""

    def __init__(self, host: int, rules: Rules) -> None:
        self.nodes = [Node((Gpu(50), Gpu(30)), 60 + host), Node((Gpu(40), Gpu(0)), 90)]
        self.rules = rules
        self.where: dict[str, int] = {}

    def park(self, at: int) -> None:
        for index, node in enumerate(self.nodes):
            for name in to_park(node, at, self.rules):
                self.nodes[index] = residency.leave(self.nodes[index], name)
                del self.where[name]

    def toggle(self, name: str, memory: int, at: int) -> None:
        """Its cell ends, or one begins."""
        home = self.where.get(name)
        notebook = Notebook(name, memory, 0) if home is None else self.nodes[home].find(name)[1]
        if home is not None and notebook.computes:
            self.nodes[home] = residency.end(self.nodes[home], name, at)
            return
        before = self.computing()
        start = choose(self.nodes, notebook, home, at, self.rules)
        if start is None:
            assert home is None or self.is_full(home, memory)
        else:
            self.start(notebook, home, start, at)
            assert self.computing() == {**before, name: (start.node, start.gpu)}

    def start(self, notebook: Notebook, home: int | None, start: Start, at: int) -> None:
        assert (start.way is Way.VOLUME) == (start.node != home)
        if start.node != home:
            if home is not None:
                assert at - notebook.since >= self.rules.volume_after
                self.nodes[home] = residency.leave(self.nodes[home], notebook.name)
            self.nodes[start.node] = residency.enter(self.nodes[start.node], notebook)
        elif not self.rules.can_move:
            assert self.nodes[start.node].find(notebook.name)[0] == start.gpu
        assert self.rules.can_move or not start.evicted
        self.nodes[start.node] = residency.begin(self.nodes[start.node], notebook.name, start.gpu, at, start.evicted)
        self.where[notebook.name] = start.node

    def is_full(self, node: int, memory: int) -> bool:
        computing = [sum(one.memory for one in gpu.computing) for gpu in self.nodes[node].gpus]
        return all(taken + memory > gpu.memory for taken, gpu in zip(computing, self.nodes[node].gpus, strict=True))

    def computing(self) -> Mapping[str, tuple[int, int | None]]:
        return {
            one.name: (index, node.find(one.name)[0])
            for index, node in enumerate(self.nodes)
            for one in node.notebooks
            if one.computes
        }


EVENTS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 30)), max_size=120)


@hypothesis.given(EVENTS, st.integers(0, 60), st.booleans())
def test_whatever_comes_what_is_chosen_can_be_done_and_nothing_that_computes_is_moved(
    events: list[tuple[int, int]], host: int, can_move: bool
) -> None:
    cluster = Cluster(host, Rules(young=10, volume_after=20, park_after=40, can_move=can_move))
    at = 0
    for number, passed in events:
        at += passed
        cluster.park(at)
        cluster.toggle(f"n{number}", 5 + 4 * number, at)
        for node in cluster.nodes:
            assert node.unbooked >= 0
            for gpu in node.gpus:
                assert gpu.used <= gpu.memory
                promised = {one.name: 40 * (1 + ord(one.name[-1]) % 3) for one in gpu.residents}
                given = parts(gpu, promised, at, cluster.rules)
                assert sum(given.values()) <= WHOLE
                assert all(given[one.name] >= promised[one.name] for one in gpu.computing)
