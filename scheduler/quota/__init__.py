"""How much each team may hold: the tree of quotas, and entitlement between teams."""
