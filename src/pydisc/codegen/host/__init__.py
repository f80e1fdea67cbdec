"""The host program: sizes, checks, arena offsets and launches as native functions.

Imports `common`, `artifact` and `shape`; knows kernels by name and argument list only.
"""
