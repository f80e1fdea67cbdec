"""CPU kernels in MLIR's vector, scf and llvm dialects, and compiling them to object code.

Imports `common`, `schedule` and what lies below. Only `host_target` looks at the machine.
"""
