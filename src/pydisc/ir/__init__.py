"""The one door to MLIR: contexts, our dialects, builder, rewriter, passes, verifiers.

Imports the MLIR bindings and `support`. Knows sizes only by the names of their symbols, and
nothing of torch, targets or kernels.
"""
