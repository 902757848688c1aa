"""The job file: its schema, its rules, quantities, names, roles and members."""
