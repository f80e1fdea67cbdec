"""Capture: PyTorch code runs once on tensors without data and becomes a StableHLO module.

`capture` runs the user's own Python forward; `lowerings` holds one rule for each aten op. The room
knows torch and builds with `ir` and `shape`; it does not optimise.
"""

from pydisc.frontend.argument_names import tensor_shapes
from pydisc.frontend.capture import capture
from pydisc.frontend.captured import (
    Capture,
    InputEquality,
    InputSpec,
    Mutation,
    OutputSpec,
    Weight,
)
from pydisc.frontend.tracer import ExternSite

__all__ = [
    "Capture",
    "ExternSite",
    "InputEquality",
    "InputSpec",
    "Mutation",
    "OutputSpec",
    "Weight",
    "capture",
    "tensor_shapes",
]
