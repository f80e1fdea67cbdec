"""pydisc: a dynamic-shape compiler for PyTorch. One compile serves every shape.

>>> import torch, pydisc
>>> model = pydisc.compile(torch.nn.Linear(4, 2).eval())
>>> with torch.no_grad():
...     [tuple(model(torch.ones(n, 4)).shape) for n in (0, 1, 7)]
[(0, 2), (1, 2), (7, 2)]
>>> model.report().compiles
1
"""

from pydisc.shape.declared import DeclaredDim as Dim
from pydisc.support.errors import InternalError, PydiscError, Unsupported
from pydisc.torch_backend import CompiledModel, compile, optimize

__version__ = "0.1.0"

__all__ = [
    "CompiledModel",
    "Dim",
    "InternalError",
    "PydiscError",
    "Unsupported",
    "compile",
    "optimize",
]
