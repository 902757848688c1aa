"""The commands of the CLI, by subject."""
