"""The contract between compiler and runtime: what a compiled program is, as plain data.

Imports `support` only, neither torch nor MLIR; computes nothing about models or machines.
"""
