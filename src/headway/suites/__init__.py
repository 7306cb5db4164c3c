"""Benchmarks that Headway can run as batches; each is a package of its own and is imported only when used."""
