"""Are two results the same, and if not, what differs?"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._prims_common import check_significant_strides
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Result:
    """What a call gave: leaves of the result and of the arguments after it, or an error."""

    leaves: tuple[Any, ...] = ()
    spec: Any = None
    error: Exception | None = None


def result_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """Call; the arguments count as results too, as a call may write to them."""
    try:
        leaves, spec = pytree.tree_flatten((fn(*args, **kwargs), args, kwargs))
    except Exception as error:
        return Result(error=error)
    return Result(tuple(leaves), spec)


def difference(
    ours: Result, eager: Result, exact: Callable[[], Result], values: bool = True
) -> str:
    """What differs, or nothing.

    Within the tolerances of torch.testing, of eager's result or else of `exact`, the same call in
    double precision. `values` is False where the values are undefined.
    """
    if eager.error is not None or ours.error is not None:
        return _error_difference(ours.error, eager.error)
    if ours.spec != eager.spec:
        return f"structure {_first(ours.spec)}, eager {_first(eager.spec)}"
    precise: Result | None = None
    for number, (x, y) in enumerate(zip(ours.leaves, eager.leaves, strict=True)):
        text = _leaf_difference(x, y, values)
        if text and isinstance(y, torch.Tensor) and y.is_floating_point():
            precise = precise or exact()
            if len(precise.leaves) == len(eager.leaves) and _is_near(x, precise.leaves[number]):
                continue
        if text:
            return f"output {number}: {text}"
    return ""


def has_other_strides(ours: Result, eager: Result) -> bool:
    """Whether an output lies in memory in another order than eager's."""
    return any(
        isinstance(x, torch.Tensor)
        and isinstance(y, torch.Tensor)
        and x.layout is torch.strided
        and y.layout is torch.strided
        and not check_significant_strides(x, y, only_cuda=False)[0]
        for x, y in zip(ours.leaves, eager.leaves, strict=False)
    )


def _error_difference(ours: Exception | None, eager: Exception | None) -> str:
    if ours is None:
        return f"no error, eager raises {_first(repr(eager))}"
    if eager is None:
        return f"raises {type(ours).__name__}: {_first(ours)}"
    if type(ours) is type(eager):
        return ""
    return f"raises {type(ours).__name__}: {_first(ours)}; eager raises {_first(repr(eager))}"


def _first(text: Any) -> str:
    """The first line, not too long."""
    lines = str(text).strip().splitlines() or [""]
    return lines[0][:200]


def _leaf_difference(x: Any, y: Any, values: bool) -> str:
    if not isinstance(y, torch.Tensor):
        same = type(x) is type(y) and (x is y or _is_equal(x, y))
        return "" if same else f"{type(x).__name__} {x!r:.80}, eager {type(y).__name__} {y!r:.80}"
    if not isinstance(x, torch.Tensor):
        return f"a {type(x).__name__}, eager gives a tensor"
    if x.dtype is not y.dtype:
        return f"dtype {x.dtype}, eager {y.dtype}"
    if x.layout is not y.layout:
        return f"layout {x.layout}, eager {y.layout}"
    if y.is_nested:
        pairs = zip(x.unbind(), y.unbind(), strict=True)
        return next(filter(None, (_leaf_difference(a, b, values) for a, b in pairs)), "")
    if x.shape != y.shape:
        return f"shape {list(x.shape)}, eager {list(y.shape)}"
    if not values or y.device.type == "meta":
        return ""
    try:
        torch.testing.assert_close(x, y, equal_nan=True)
    except AssertionError as error:
        return _mismatch(x, y, str(error))
    return ""


def _mismatch(x: torch.Tensor, y: torch.Tensor, text: str) -> str:
    """The first element that differs, and how many do."""
    if y.layout is not torch.strided or y.is_quantized or not y.dim():
        return " ".join(text.split())[:200]
    bad = ~torch.isclose(x, y, rtol=1e-3, atol=1e-5, equal_nan=True)
    if not bad.any():
        bad = x != y
    where = bad.nonzero()[0].tolist()
    a, b = x[tuple(where)].item(), y[tuple(where)].item()
    return f"{int(bad.sum())} of {y.numel()} differ, first {where}: {a!r}, eager {b!r}"


def _is_equal(x: Any, y: Any) -> bool:
    if isinstance(x, float) and math.isnan(x):
        return math.isnan(y)
    if isinstance(x, torch.Generator):
        return bool(torch.equal(x.get_state(), y.get_state()))
    return bool(x == y)


def _is_near(x: Any, exact: Any) -> bool:
    """Whether a result in single or half precision is right, whatever eager gives."""
    if not isinstance(x, torch.Tensor) or not isinstance(exact, torch.Tensor):
        return False
    if exact.dtype is not torch.float64 or x.shape != exact.shape or x.layout is not exact.layout:
        return False
    try:
        torch.testing.assert_close(x, exact.to(x.dtype), equal_nan=True)
    except AssertionError:
        return False
    return True
