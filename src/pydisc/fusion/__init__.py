"""What becomes one kernel, and why: a module and its symbols to a FusionPlan.

The plan holds each region's `KernelProgram`: scalar code at a point, addresses as linear forms.
Imports `ir` and `shape`; knows no target, no schedule and no torch. Changes no module: `apply`
writes the plan as a new one.
"""
