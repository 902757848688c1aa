"""Events in order, the audit log, names in sentences."""
