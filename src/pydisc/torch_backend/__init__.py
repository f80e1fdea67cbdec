"""The way in from PyTorch: `compile`, `optimize`, and the torch.compile backend `disc`."""

from pydisc.torch_backend.api import compile, optimize
from pydisc.torch_backend.compiled import CompiledModel
from pydisc.torch_backend.dynamo import disc

__all__ = ["CompiledModel", "compile", "disc", "optimize"]
