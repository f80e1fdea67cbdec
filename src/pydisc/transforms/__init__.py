"""StableHLO to StableHLO, one pass a file, each with a golden test of its name.

Imports `ir` and `shape`; a pass never calls another, knows no target and keeps every symbol.
Pipelines are put together in `compiler`.
"""
