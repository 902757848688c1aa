"""The cells of a cluster that is cut into some."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, View, endpoint
from controlplane.api.serializers import cells as answers
from controlplane.queries.cells import overview
from controlplane.queries.cells.overview import CellRow, Decider, Divided, PartRow


class Cells(View):
    """All cells."""

    @endpoint(answer=answers.CellList, tag="cluster", operation="list_cells", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the cells with their deciders and their parts of your teams' quotas; none where there is one cell."""
        found = overview.rows(request.user)
        parts = overview.parts_by_cell(overview.divided(request.user)) if found else {}
        return self.paged([_row(row, parts.get(row.name, [])) for row in found], "name")


def _row(row: CellRow, parts: list[tuple[Divided, PartRow]]) -> dict[str, Any]:
    return {
        "name": row.name,
        "node_pools": row.pools,
        "racks": row.racks,
        "nodes": row.nodes,
        "capacity_milli": row.capacity,
        "allocated_milli": row.held,
        "running": row.running,
        "waiting": row.waiting,
        "decider": _decider(row.decider),
        "quotas": [_part(whole, part) for whole, part in parts],
    }


def _decider(found: Decider) -> dict[str, Any]:
    return {
        "state": found.state.value,
        "holder": found.holder or None,
        "seconds_since_round": found.age_seconds,
        "round_ms": found.took_ms,
        "error": found.error or None,
    }


def _part(whole: Divided, part: PartRow) -> dict[str, Any]:
    return {
        "team": whole.team,
        "pool": whole.pool,
        "nominal_milli": part.nominal,
        "borrowing_limit_milli": part.borrowing_limit,
        "lending_limit_milli": part.lending_limit,
        "quota_nominal_milli": whole.nominal,
        "quota_borrowing_limit_milli": whole.borrowing_limit,
    }
