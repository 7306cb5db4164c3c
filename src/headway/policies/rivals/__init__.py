"""Policies of other systems, for comparison, with Headway's slots (shared by all, first come, first served).

Each says what of it is published and what had to be guessed. None of them is used unless asked for by name.
"""
