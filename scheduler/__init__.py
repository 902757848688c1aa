"""What runs where: quota, order, gangs, placement, preemption. Pure: a frozen snapshot in, decisions out."""
