"""What a round works on: the tentative plan, the session, the ledger, and what is kept between rounds."""
