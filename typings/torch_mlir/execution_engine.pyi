# See ir.pyi: the compiled core is untyped, so these names are Any too.
from typing import Any

def __getattr__(name: str) -> Any: ...
