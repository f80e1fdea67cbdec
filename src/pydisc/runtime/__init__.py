"""Runs compiled programs: loads code, follows weights, allocates, launches, from any thread.

Imports `artifact` and `support`, torch and llvmlite; never MLIR or a room of the compiler, so that
it can ship without them.
"""
