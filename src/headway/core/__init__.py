"""The scheduling core: pure values and one pure machine. No clock, loop, disk or dice in here."""
