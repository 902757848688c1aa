"""Retention: the audit log and the events may be deleted from their beginning, where they are old, and nothing else.

The triggers decide, whoever asks: a process that was taken over has the rights of its database user and no more. They
name each table with its schema, and take `pg_temp` last, since anybody may make a temporary table of the same name.
"""

from django.db import migrations, models

# Days: what controlplane/retention.py calls LEAST_EVENTS and LEAST_AUDIT_LOG. A migration does not follow the code.
LEAST_EVENTS, LEAST_AUDIT_LOG = 7, 30

SQLITE = {
    "auditentry_keeps_rows": """
        CREATE TRIGGER auditentry_keeps_rows BEFORE DELETE ON controlplane_auditentry
        WHEN OLD.number > COALESCE((SELECT MAX(number) FROM controlplane_auditanchor), 0)
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    "auditanchor_keeps_rows": """
        CREATE TRIGGER auditanchor_keeps_rows BEFORE DELETE ON controlplane_auditanchor
        BEGIN SELECT RAISE(ABORT, 'anchors of the audit log are append-only'); END
    """,
    "auditanchor_keeps_values": """
        CREATE TRIGGER auditanchor_keeps_values BEFORE UPDATE ON controlplane_auditanchor
        BEGIN SELECT RAISE(ABORT, 'anchors of the audit log are append-only'); END
    """,
    "auditanchor_goes_on": f"""
        CREATE TRIGGER auditanchor_goes_on BEFORE INSERT ON controlplane_auditanchor
        WHEN NEW.number <= COALESCE((SELECT MAX(number) FROM controlplane_auditanchor), 0)
            OR NEW.number >= COALESCE((SELECT MAX(number) FROM controlplane_auditentry), 0)
            OR NOT EXISTS (SELECT 1 FROM controlplane_auditentry WHERE number = NEW.number AND digest = NEW.digest)
            OR NEW."rows" <> NEW.number - COALESCE((SELECT MAX(number) FROM controlplane_auditanchor), 0)
            OR EXISTS (
                SELECT 1 FROM controlplane_auditentry
                WHERE number <= NEW.number AND "at" > DATETIME('now', '-{LEAST_AUDIT_LOG} days')
            )
        BEGIN SELECT RAISE(ABORT, 'the audit log is not pruned so: only from its beginning, and only what is old'); END
    """,
    "event_keeps_rows": """
        CREATE TRIGGER event_keeps_rows BEFORE DELETE ON controlplane_event
        WHEN OLD.id > COALESCE((SELECT number FROM controlplane_pruned WHERE name = 'controlplane_event'), 0)
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END
    """,
    "pruned_keeps_rows": """
        CREATE TRIGGER pruned_keeps_rows BEFORE DELETE ON controlplane_pruned
        BEGIN SELECT RAISE(ABORT, 'how far was pruned is not forgotten'); END
    """,
    **{
        f"pruned_goes_on_{verb}": f"""
            CREATE TRIGGER pruned_goes_on_{verb} BEFORE {verb} ON controlplane_pruned
            WHEN {changed} (NEW.name = 'controlplane_event' AND (
                NEW.number >= COALESCE((SELECT MAX(id) FROM controlplane_event), 0)
                OR EXISTS (
                    SELECT 1 FROM controlplane_event
                    WHERE id > {before} AND id <= NEW.number AND "at" > DATETIME('now', '-{LEAST_EVENTS} days')
                )
            ))
            BEGIN SELECT RAISE(ABORT, 'events are not pruned so: only from their beginning, and only what is old'); END
        """
        for verb, before, changed in (
            ("insert", "0", ""),
            ("update", "OLD.number", "NEW.name <> OLD.name OR NEW.number < OLD.number OR"),
        )
    },
}
# The triggers of 0003 and 0014 stay; their functions are replaced.
POSTGRES = f"""
    CREATE OR REPLACE FUNCTION auditentry_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND OLD.number <= (SELECT max(number) FROM public.controlplane_auditanchor) THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'integrity_constraint_violation';
    END $$;

    CREATE FUNCTION auditanchor_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'anchors of the audit log are append-only' USING ERRCODE = 'integrity_constraint_violation';
    END $$;
    CREATE TRIGGER auditanchor_keeps_rows BEFORE UPDATE OR DELETE ON controlplane_auditanchor
    FOR EACH ROW EXECUTE FUNCTION auditanchor_is_append_only();

    CREATE FUNCTION auditanchor_goes_on() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
    DECLARE
        before public.controlplane_auditanchor;
    BEGIN
        SELECT * INTO before FROM public.controlplane_auditanchor ORDER BY number DESC LIMIT 1;
        IF NEW.number <= coalesce(before.number, 0)
            OR NEW.number >= (SELECT max(number) FROM public.controlplane_auditentry)
            OR NOT EXISTS (
                SELECT 1 FROM public.controlplane_auditentry WHERE number = NEW.number AND digest = NEW.digest
            )
            OR NEW."rows" <> NEW.number - coalesce(before.number, 0)
            OR NEW.at NOT BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp()
            OR NEW.chain <> encode(sha256(convert_to(concat_ws('|', coalesce(before.chain, repeat('0', 64)), NEW.number,
                NEW.digest, NEW."rows", to_char(NEW.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')), 'UTF8')), 'hex')
            OR EXISTS (
                SELECT 1 FROM public.controlplane_auditentry
                WHERE number <= NEW.number AND at > clock_timestamp() - interval '{LEAST_AUDIT_LOG} days'
            )
        THEN
            RAISE EXCEPTION 'the audit log is not pruned so: only from its beginning, and only what is old'
            USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER auditanchor_goes_on BEFORE INSERT ON controlplane_auditanchor
    FOR EACH ROW EXECUTE FUNCTION auditanchor_goes_on();

    CREATE OR REPLACE FUNCTION event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND OLD.id <= (
            SELECT number FROM public.controlplane_pruned WHERE name = 'controlplane_event'
        ) THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'integrity_constraint_violation';
    END $$;

    CREATE FUNCTION pruned_goes_on() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
    DECLARE
        reached bigint := 0;
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            reached := OLD.number;
        END IF;
        IF TG_OP = 'DELETE' OR (TG_OP = 'UPDATE' AND (NEW.name <> OLD.name OR NEW.number < OLD.number)) THEN
            RAISE EXCEPTION 'how far was pruned is not forgotten' USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.name = 'controlplane_event' AND (
            NEW.number >= (SELECT coalesce(max(id), 0) FROM public.controlplane_event)
            OR EXISTS (
                SELECT 1 FROM public.controlplane_event
                WHERE id > reached AND id <= NEW.number AND at > clock_timestamp() - interval '{LEAST_EVENTS} days'
            )
        ) THEN
            RAISE EXCEPTION 'events are not pruned so: only from their beginning, and only what is old'
            USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER pruned_goes_on BEFORE INSERT OR UPDATE OR DELETE ON controlplane_pruned
    FOR EACH ROW EXECUTE FUNCTION pruned_goes_on();
"""
POSTGRES_BACK = """
    CREATE OR REPLACE FUNCTION auditentry_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
    CREATE OR REPLACE FUNCTION event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
    DROP TRIGGER auditanchor_keeps_rows ON controlplane_auditanchor;
    DROP TRIGGER auditanchor_goes_on ON controlplane_auditanchor;
    DROP TRIGGER pruned_goes_on ON controlplane_pruned;
    DROP FUNCTION auditanchor_is_append_only();
    DROP FUNCTION auditanchor_goes_on();
    DROP FUNCTION pruned_goes_on();
"""
SQLITE_BEFORE = {
    name: f"CREATE TRIGGER {name} BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, '{said}'); END"
    for name, table, said in (
        ("auditentry_keeps_rows", "controlplane_auditentry", "the audit log is append-only"),
        ("event_keeps_rows", "controlplane_event", "events are append-only"),
    )
}


def forward(apps, editor):
    if editor.connection.vendor == "sqlite":
        for name, statement in SQLITE.items():
            editor.execute(f"DROP TRIGGER IF EXISTS {name}")
            editor.execute(statement)
    else:
        editor.execute(POSTGRES)


def back(apps, editor):
    if editor.connection.vendor == "sqlite":
        for name in SQLITE:
            editor.execute(f"DROP TRIGGER {name}")
        for statement in SQLITE_BEFORE.values():
            editor.execute(statement)
    else:
        editor.execute(POSTGRES_BACK)


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0021_credentials"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditAnchor",
            fields=[
                (
                    "number",
                    models.BigIntegerField(
                        help_text="Of the last row that was pruned", primary_key=True, serialize=False
                    ),
                ),
                (
                    "digest",
                    models.CharField(help_text="Of that row: what the first row that is left follows", max_length=64),
                ),
                ("rows", models.BigIntegerField(help_text="How many went since the anchor before")),
                ("at", models.DateTimeField(help_text="Database clock")),
                ("chain", models.CharField(help_text="SHA-256, hexadecimal", max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Pruned",
            fields=[
                ("name", models.CharField(help_text="The table", max_length=40, primary_key=True, serialize=False)),
                ("number", models.BigIntegerField(help_text="Of the last row that was pruned")),
                ("rows", models.BigIntegerField(default=0, help_text="How many were deleted in all")),
                ("at", models.DateTimeField(help_text="Database clock, of the last time that any were")),
            ],
            options={
                "verbose_name_plural": "pruned tables",
            },
        ),
        migrations.RunPython(forward, back),
    ]
