"""Which of the places that fit is taken: the scorers behind one interface."""
