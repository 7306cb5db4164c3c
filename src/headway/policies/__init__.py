"""Policies: small pure values that answer the machine's questions. They hold no state and see no driver."""
