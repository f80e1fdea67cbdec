# The wheel has no types for the core of the bindings (a compiled module): all names are Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
