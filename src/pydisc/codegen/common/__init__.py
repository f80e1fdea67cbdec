"""Writing MLIR text, for all code generators.

Knows types, values and lines; nothing of kernels, schedules or sizes, and none of its siblings.
"""
