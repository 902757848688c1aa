"""The claims of the systems that Weft grew from, as experiments E1 to E9, and one report of all of them."""
