"""gpus: who holds what of each GPU."""

from typing import Annotated

import typer

from weft import output
from weft.commands.read import Form
from weft.output import Format
from weft.session import Session


def gpus(
    ctx: typer.Context,
    node: Annotated[str, typer.Option(help="Only of this node.")] = "",
    pool: Annotated[str, typer.Option(help="Only of this node pool.")] = "",
    shared: Annotated[
        bool, typer.Option("--shared", help="Only GPUs of which a worker has a part, a lent one, or what is left.")
    ] = False,
    form: Form = Format.TABLE,
) -> None:
    """Show who holds what of each GPU: guarantee, limit, memory, measured use, neighbours, and what enforces it."""
    from weft import columns

    session: Session = ctx.obj
    found = list(session.client.gpus(node=node, pool=pool, shared=shared))
    rows = [columns.Held(gpu, tenant) for gpu in found for tenant in (gpu.tenants or ({},))]
    empty = "No GPU is shared or lent there." if shared else "There are no such GPUs."
    output.show(rows if form.is_text else found, columns.LEDGER, form, empty=empty)
