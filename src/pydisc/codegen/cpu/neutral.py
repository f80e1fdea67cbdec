"""The neutral elements that reductions and scans start from."""

_NEUTRAL: dict[str, float] = {"add": 0, "multiply": 1, "or": 0, "and": 1}


def neutral(kind: str, dtype: str) -> float | int | bool:
    """The neutral element of a reduction."""
    if kind in _NEUTRAL:
        return bool(_NEUTRAL[kind]) if dtype == "i1" else _NEUTRAL[kind]
    if dtype[0] in "fb":
        return float("-inf") if kind == "maximum" else float("inf")
    if dtype == "i1":
        return kind == "minimum"
    bits = int(dtype.lstrip("ui"))
    if dtype.startswith("u"):
        return 0 if kind == "maximum" else 2**bits - 1
    return -(2 ** (bits - 1)) if kind == "maximum" else 2 ** (bits - 1) - 1
