"""One question's way through the engine: checks before the charge, what a charge owes, where the ledger lives."""
