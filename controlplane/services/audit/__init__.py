"""Events, the audit log, retention, database grants."""
