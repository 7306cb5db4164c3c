"""The resource model of hybrid LLMs: a model's bytes, an engine's layout, a workload, and the plan they add up to.

Pure: no clock, disk, network or dice. Callers read files; this package turns what they hold into numbers.
"""
