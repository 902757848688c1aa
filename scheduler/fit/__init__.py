"""What fits where: capacity, flavors, gangs, roles, topology, under a team's quota."""
