from django.db import migrations

SQLITE = {
    "event_keeps_rows": """
        CREATE TRIGGER event_keeps_rows BEFORE DELETE ON controlplane_event
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END
    """,
    "event_keeps_values": """
        CREATE TRIGGER event_keeps_values BEFORE UPDATE ON controlplane_event
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END
    """,
}
POSTGRES = """
    CREATE FUNCTION event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
    CREATE TRIGGER event_keeps_rows BEFORE UPDATE OR DELETE ON controlplane_event
    FOR EACH ROW EXECUTE FUNCTION event_is_append_only();
"""
POSTGRES_BACK = """
    DROP TRIGGER event_keeps_rows ON controlplane_event;
    DROP FUNCTION event_is_append_only();
"""


def forward(apps, editor):
    """Whoever may write rows still may not rewrite history; only the tables' owner can drop the trigger."""
    if editor.connection.vendor == "sqlite":
        for statement in SQLITE.values():
            editor.execute(statement)
    else:
        editor.execute(POSTGRES)


def back(apps, editor):
    if editor.connection.vendor == "sqlite":
        for name in SQLITE:
            editor.execute(f"DROP TRIGGER {name}")
    else:
        editor.execute(POSTGRES_BACK)


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0002_ledger"),
    ]

    operations = [migrations.RunPython(forward, back)]
