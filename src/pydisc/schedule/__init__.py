"""How a kernel runs: a KernelProgram and a target to a Schedule, which is frozen data.

A schedule says which axes units of work are counted over, which axis runs across lanes, what is
blocked and unrolled. Imports `fusion`, `shape` and `targets`; writes no code and probes no machine.
"""
