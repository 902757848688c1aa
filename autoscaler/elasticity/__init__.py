"""How many GPUs of which type each elastic training has: one plan over all, for like and unlike GPUs."""
