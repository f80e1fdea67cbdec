"""Runs a module's @main with torch, op by op at concrete sizes: the oracle of the capture."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_mlir.ir import (
    DenseElementsAttr,
    FlatSymbolRefAttr,
    Module,
    Operation,
)

from pydisc.artifact.extern_args import decode
from pydisc.artifact.size_expression import evaluate
from pydisc.frontend import Capture, OutputSpec
from pydisc.frontend.dtypes import TORCH_OF
from pydisc.ir import dense
from pydisc.ir.types import dtype_of, shape_of
from pydisc.runtime.operators import apply_views
from pydisc.shape import SymbolTable

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "abs": torch.abs,
    "negate": torch.neg,
    "exponential": torch.exp,
    "exponential_minus_one": torch.expm1,
    "log": torch.log,
    "log_plus_one": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "sine": torch.sin,
    "cosine": torch.cos,
    "tan": torch.tan,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "sign": torch.sign,
    "not": torch.bitwise_not,
    "round_nearest_even": torch.round,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a | b if a.dtype is torch.bool else a + b,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": lambda a, b: (
        a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")
    ),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "power": torch.pow,
    "remainder": torch.fmod,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "atan2": torch.atan2,
}
_SCAN: dict[str, Callable[[Tensor, int], Tensor]] = {
    "add": torch.cumsum,
    "multiply": torch.cumprod,
    "maximum": lambda x, axis: torch.cummax(x, axis).values,
    "minimum": lambda x, axis: torch.cummin(x, axis).values,
}
_COMPARE = {
    "EQ": torch.eq,
    "NE": torch.ne,
    "GE": torch.ge,
    "GT": torch.gt,
    "LE": torch.le,
    "LT": torch.lt,
}
_DYNAMIC = {
    "dynamic_broadcast_in_dim": "broadcast_in_dim",
    "dynamic_reshape": "reshape",
    "dynamic_iota": "iota",
    "real_dynamic_slice": "slice",
}


class Interpreter:
    """Runs @main; checks every value against its declared type."""

    def __init__(self, module: Module, symbols: SymbolTable) -> None:
        self.symbols = symbols
        self.main = next(
            op.operation
            for op in module.body.operations
            if op.operation.name == "func.func" and dense.string(op.operation, "sym_name") == "main"
        )
        self.env: dict[str, int] = {}
        self.values: dict[Any, Any] = {}

    def run(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The results for these arguments."""
        block = self.main.regions[0].blocks[0]
        assert len(block.arguments) == len(arguments)
        self.values, self.env = {}, {}
        for formal, actual in zip(block.arguments, arguments, strict=True):
            for size, n in zip(shape_of(formal.type), actual.shape, strict=True):
                if isinstance(size, str):
                    assert self.env.setdefault(size, n) == n, f"{size} is {self.env[size]} and {n}"
                else:
                    assert size == n, f"declared {size}, given {n}"
            self.values[formal] = actual
        with torch.no_grad():
            for op in block.operations:
                if op.operation.name == "func.return":
                    return [self.values[v] for v in op.operation.operands]
                self._run(op.operation)
        raise AssertionError("no return")

    def _size(self, name: str) -> int:
        return self.symbols.dim_of(name).evaluate(self.env)

    def _run(self, op: Operation) -> None:
        outs = self._outputs(op, [self.values[v] for v in op.operands])
        for result, out in zip(op.results, outs, strict=True):
            if isinstance(out, Tensor):
                self._check(op, result, out)
            self.values[result] = out

    def _check(self, op: Operation, result: Any, out: Tensor) -> None:
        if op.name in ("tensor.from_elements", "arith.constant", "disc_shape.dim"):
            return
        declared = tuple(self._size(s) if isinstance(s, str) else s for s in shape_of(result.type))
        assert tuple(out.shape) == declared, f"{op}: {tuple(out.shape)}, declared {declared}"
        assert out.dtype is TORCH_OF[dtype_of(result.type)], f"{op}: {out.dtype}"

    def _shape(self, op: Operation) -> list[int]:
        return [self._size(s) if isinstance(s, str) else s for s in shape_of(op.results[0].type)]

    def _outputs(self, op: Operation, args: list[Any]) -> list[Any]:
        match op.name:
            case "arith.constant":
                return [dense.integer(op, "value")]
            case "disc_shape.dim":
                return [self._size(FlatSymbolRefAttr(op.attributes["symbol"]).value)]
            case "tensor.from_elements":
                return [args]
            case "arith.index_cast":
                return [torch.tensor(args[0][0], dtype=torch.int64)]
            case "disc.elementwise":
                return [getattr(torch, dense.string(op, "fn"))(*args)]
            case "disc.scan":
                run = _SCAN[dense.string(op, "fn")]
                return [run(args[0], dense.integer(op, "axis")).to(args[0].dtype)]
            case "disc.extern":
                return self._extern(op, args)
        name = op.name.split(".")[1]
        return [self._hlo(_DYNAMIC.get(name, name), op, args)]

    def _extern(self, op: Operation, args: list[Any]) -> list[Any]:
        packet, overload = dense.string(op, "target").removeprefix("aten.").rsplit(".", 1)
        target = getattr(getattr(torch.ops.aten, packet), overload)

        def named(kind: str, name: str) -> Any:
            return torch.device(name) if kind == "device" else getattr(torch, name)

        call, options = decode(dense.string(op, "args"), args, self.env, named)
        out = target(*call, **options)
        return [t for t in out if t is not None] if isinstance(out, tuple | list) else [out]

    def _hlo(self, name: str, op: Operation, args: list[Any]) -> Tensor:  # noqa: C901
        if name in _UNARY:
            return _UNARY[name](*args)
        if name in _BINARY:
            assert args[0].shape == args[1].shape, str(op)
            return _BINARY[name](*args)
        match name:
            case "constant":
                dtype = TORCH_OF[dtype_of(op.results[0].type)]
                assert DenseElementsAttr(op.attributes["value"]).is_splat
                return torch.full(self._shape(op), dense.splat(op), dtype=dtype)
            case "compare":
                direction = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
                assert args[0].shape == args[1].shape, str(op)
                assert args[0].dtype is args[1].dtype, str(op)
                return _COMPARE[direction](*args)
            case "select":
                assert args[0].shape == args[1].shape == args[2].shape, str(op)
                return torch.where(*args)
            case "convert":
                return args[0].to(TORCH_OF[dtype_of(op.results[0].type)])
            case "broadcast_in_dim":
                return self._broadcast(op, args[0])
            case "reshape":
                return args[0].reshape(self._shape(op))
            case "transpose":
                return args[0].permute(dense.ints(op, "permutation"))
            case "slice":
                return self._slice(op, args)
            case "concatenate":
                return torch.cat(args, dense.integer(op, "dimension"))
            case "iota":
                return self._iota(op)
            case "pad":
                low, high = dense.ints(op, "edge_padding_low"), dense.ints(op, "edge_padding_high")
                pads = [n for pair in reversed(list(zip(low, high, strict=True))) for n in pair]
                return torch.constant_pad_nd(args[0], pads, args[1].item())
            case "reduce":
                return self._reduce(op, args[0])
            case "dot_general":
                return self._dot(op, *args)
            case "torch_index_select":
                table, index = args
                if index.numel() and not (0 <= index.min() and index.max() < table.shape[0]):
                    raise IndexError("index out of range")
                flat = table.index_select(0, index.reshape(-1))
                return flat.reshape(*index.shape, *table.shape[1:])
        raise NotImplementedError(op.name)

    def _broadcast(self, op: Operation, x: Tensor) -> Tensor:
        shape, dims = self._shape(op), dense.ints(op, "broadcast_dimensions")
        order = sorted(range(len(dims)), key=dims.__getitem__)
        spread = x.permute(order)
        at = 0
        for axis in range(len(shape)):
            if axis in dims:
                at += 1
            else:
                spread = spread.unsqueeze(at)
                at += 1
        return spread.expand(shape)

    def _slice(self, op: Operation, args: list[Any]) -> Tensor:
        if len(args) == 4:
            x, starts, limits, strides = args
        else:
            x = args[0]
            starts, limits, strides = (
                dense.ints(op, key) for key in ("start_indices", "limit_indices", "strides")
            )
        for size, start, limit in zip(x.shape, starts, limits, strict=True):
            assert 0 <= start <= limit <= size, f"{op}: {start}:{limit} of {size}"
        return x[tuple(slice(*bounds) for bounds in zip(starts, limits, strides, strict=True))]

    def _iota(self, op: Operation) -> Tensor:
        shape, axis = self._shape(op), dense.integer(op, "iota_dimension")
        line = torch.arange(shape[axis], dtype=TORCH_OF[dtype_of(op.results[0].type)])
        along = [shape[axis] if i == axis else 1 for i in range(len(shape))]
        return line.reshape(along).expand(shape)

    def _reduce(self, op: Operation, x: Tensor) -> Tensor:
        kind = op.regions[0].blocks[0].operations[0].operation.name.split(".")[1]
        axes = dense.ints(op, "dimensions")
        if not axes:
            return x
        if kind == "add":
            return torch.sum(x, axes, dtype=x.dtype)
        if kind in ("and", "or"):
            return (torch.all if kind == "and" else torch.any)(x, axes)
        if kind == "multiply":
            for axis in sorted(axes, reverse=True):
                x = torch.prod(x, axis, dtype=x.dtype)
            return x
        if any(x.shape[a] == 0 for a in axes):
            low = kind == "maximum"
            info: Any = torch.finfo(x.dtype) if x.is_floating_point() else torch.iinfo(x.dtype)
            edge = float("inf") if x.is_floating_point() else info.max
            shape = [s for i, s in enumerate(x.shape) if i not in axes]
            return torch.full(shape, -edge if low else edge, dtype=x.dtype)
        return (torch.amax if kind == "maximum" else torch.amin)(x, axes)

    def _dot(self, op: Operation, x: Tensor, y: Tensor) -> Tensor:
        text = str(op.attributes["dot_dimension_numbers"])

        def dims(key: str) -> list[int]:
            if key not in text:
                return []
            inside = text.split(key, 1)[1].split("[", 1)[1].split("]", 1)[0]
            return [int(t) for t in inside.split(",") if t.strip()]

        xb, yb = dims("lhs_batching_dimensions"), dims("rhs_batching_dimensions")
        xc, yc = dims("lhs_contracting_dimensions"), dims("rhs_contracting_dimensions")
        xf = [i for i in range(x.ndim) if i not in xb + xc]
        yf = [i for i in range(y.ndim) if i not in yb + yc]

        def size(t: Tensor, axes: list[int]) -> int:
            n = 1
            for a in axes:
                n *= t.shape[a]
            return n

        batch = [x.shape[i] for i in xb]
        assert batch == [y.shape[i] for i in yb], str(op)
        a = x.permute(xb + xf + xc).reshape(size(x, xb), size(x, xf), size(x, xc))
        c = y.permute(yb + yc + yf).reshape(size(y, yb), size(y, yc), size(y, yf))
        out = torch.bmm(a, c)
        return out.reshape(batch + [x.shape[i] for i in xf] + [y.shape[i] for i in yf])


def declared_env(capture: Capture, arguments: Sequence[Tensor]) -> dict[str, int] | None:
    """The symbols' values for these tensor arguments; None if the declared shapes refuse them."""
    env: dict[str, int] = {}
    for spec, tensor in zip(capture.inputs, arguments, strict=True):
        for size, n in zip(spec.shape, tensor.shape, strict=True):
            if isinstance(size, int):
                if size != n:
                    return None
            elif env.setdefault(str(size), n) != n:
                return None
    return env


def guards_hold(capture: Capture, env: Mapping[str, int]) -> bool:
    """Whether the program is valid at these sizes."""
    return all(guard.holds(env) for guard in capture.guards)


def replay(capture: Capture, leaves: Sequence[Any]) -> Any:
    """What the captured program returns for the leaves of (args, kwargs); mutations are applied."""
    inputs = [leaves[spec.leaf] for spec in capture.inputs]
    weights = [weight.tensor for weight in capture.weights]
    results = Interpreter(capture.module, capture.symbols).run([*inputs, *weights])
    places = {"input": inputs, "weight": weights, "result": results}
    with torch.no_grad():
        for mutation in capture.mutations:
            places[mutation.kind][mutation.index].copy_(results[mutation.result])
    env = declared_env(capture, inputs) or {}
    out = [_leaf(spec, places, env) for spec in capture.outputs]
    return torch.utils._pytree.tree_unflatten(out, capture.out_spec)


def _leaf(spec: OutputSpec, places: dict[str, Any], env: Mapping[str, int]) -> Any:
    if spec.kind == "constant":
        return spec.value
    if spec.kind == "size":
        return evaluate(spec.value, env)
    return apply_views(places[spec.kind][spec.index], spec.views, env)


__all__ = ["Interpreter", "declared_env", "guards_hold", "replay"]
