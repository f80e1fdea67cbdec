"""What every room may use: errors, source lines, knobs, logging, timing, dumps.

Knows nothing of compilers, imports no other room, no torch and no MLIR.
"""
