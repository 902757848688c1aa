"""Running trainings: what slows them, what is tried or planned for them, and what that did."""
