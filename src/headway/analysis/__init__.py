"""Findings out of runs: simulated comparisons of policies, with paired differences and intervals."""
