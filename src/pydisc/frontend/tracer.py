"""The tracer: user code runs on tensors without data, each op that arrives is built into the IR."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from pydisc.artifact.extern_args import encode
from pydisc.frontend import composites, views
from pydisc.frontend.dtypes import NAME_OF, TORCH_OF, name_of
from pydisc.frontend.extern_shapes import shape_rule_of
from pydisc.frontend.lowerings import LoweringContext, rule_of
from pydisc.frontend.traced_tensor import TracedTensor
from pydisc.ir.builder import Builder, Value
from pydisc.shape import Dim, Real, ShapeContext, unwrap
from pydisc.support.errors import Unsupported
from pydisc.support.source import SourceLine, current_source_line

_PLAIN = frozenset(
    (
        int,
        float,
        bool,
        str,
        type(None),
        torch.dtype,
        torch.layout,
        torch.device,
        torch.memory_format,
    )
)
_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class ExternSite:
    """An operator that is left to the framework, why, and where the user's code calls it."""

    target: str
    reason: str
    where: SourceLine
    is_view: bool = False
    """Then it does nothing but make its result."""


@dataclass(slots=True)
class TracedWeight:
    """A real tensor that the trace met, its value, and its traced tensor if one was needed."""

    tensor: Tensor
    value: Value
    traced: TracedTensor | None = None


@dataclass(slots=True)
class _Op:
    """What is known of an overload, found out once."""

    name: str
    rule: Callable[..., Any] | None
    composite: Callable[..., Any] | None
    func: Any
    is_view: bool
    writes_first: bool
    is_out: bool


_ops: dict[Any, _Op] = {}


def _describe(func: Any) -> _Op:
    schema = func._schema
    arguments = schema.arguments
    first = arguments[0].alias_info if arguments else None
    returns = schema.returns[0].alias_info if schema.returns else None
    written = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    name = str(func)
    found = _Op(
        name=name,
        rule=rule_of(name),
        composite=composites.composite_of(name),
        func=func,
        is_view=returns is not None and first is not None and not first.is_write and not written,
        writes_first=bool(written) and first is not None and first.is_write and len(written) == 1,
        is_out=any(a.is_out for a in written),
    )
    _ops[func] = found
    return found


class Tracer(TorchDispatchMode):
    """A mode under which every op on a tensor becomes ops of the module under construction."""

    def __init__(
        self,
        b: Builder,
        shapes: ShapeContext,
        add_weight: Callable[[Tensor], Value],
        after_op: Callable[[], None],
    ) -> None:
        super().__init__()
        self.after_op = after_op
        """Called after each op of the user's code; it may raise to end the trace."""
        self.b = b
        self.shapes = shapes
        self.cx = LoweringContext(b, shapes)
        self.device = _CPU
        """Of the tensors made so far; where a factory puts a tensor if nobody says."""
        self.externs: list[ExternSite] = []
        self.op_count = 0
        self.written: dict[int, TracedTensor] = {}
        """Inputs and weights that were written to, by id."""
        self.needs_dense: set[int] = set()
        """Ids of inputs and weights of which the trace holds only if they have no gaps."""
        self.weights: dict[int, TracedWeight] = {}
        self._add_weight = add_weight
        self._any_write = False
        self._decomposing = 0
        self._perhaps_views: list[tuple[TracedTensor, TracedTensor, list[Dim]]] = []
        self._symints: dict[Dim, SymInt] = {}
        self._layouts: dict[Any, tuple[list[Any], list[Any]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: otherwise torch wraps each dispatch to keep Dynamo away, which is not running."""
        return False

    # -- between torch's objects and ours ---------------------------------------------------------
    def symint(self, size: Any) -> Any:
        """A size as torch wants it."""
        if type(size) is int:
            return size
        found = self._symints.get(size)
        if found is None:
            found = self._symints[size] = SymInt(size)
        return found

    def wrap(
        self, value: Value, device: torch.device, strides: tuple[Any, ...] | None = None
    ) -> TracedTensor:
        """A new tensor for a value."""
        key = (value.shape, strides)
        found = self._layouts.get(key)
        if found is None:
            steps = views.row_major(value.shape) if strides is None else strides
            found = [self.symint(s) for s in value.shape], [self.symint(s) for s in steps]
            self._layouts[key] = found
        out = TracedTensor(self, value, *found, TORCH_OF[value.dtype], device)
        out._strides = strides
        return out

    def traced(self, tensor: Tensor) -> TracedTensor:
        """The tensor of the trace that stands for a real one: a weight of the program."""
        if type(tensor) is TracedTensor:
            if tensor._tracer is not self:
                raise Unsupported(
                    "a tensor of another trace",
                    "the model keeps a tensor that an earlier call computed",
                    where=current_source_line(),
                )
            return tensor
        weight = self._weight(tensor)
        if weight.traced is None:
            weight.traced = self.wrap(weight.value, tensor.device)
            weight.traced._is_argument = True
        return weight.traced

    def _weight(self, tensor: Tensor) -> TracedWeight:
        found = self.weights.get(id(tensor))
        if found is None:
            if tensor.layout is not torch.strided or type(tensor) not in (
                Tensor,
                torch.nn.Parameter,
            ):
                raise Unsupported(
                    f"a tensor of type {type(tensor).__name__}, layout {tensor.layout}",
                    "only plain dense tensors are compiled",
                    where=current_source_line(),
                )
            found = TracedWeight(tensor, self._add_weight(tensor))
            self.weights[id(tensor)] = found
        return found

    def value_of(self, tensor: Tensor) -> Value:
        """The value of a tensor now: a view whose base was written to is read anew."""
        if type(tensor) is not TracedTensor:
            weight = self._weight(tensor)
            if weight.traced is None:
                return weight.value
        t = self.traced(tensor)
        if self._any_write:
            self._refresh(t)
        return t._value

    def _refresh(self, t: TracedTensor) -> None:
        view = t._view
        if view is None:
            return
        self._refresh(view.base)
        if view.base._writes != view.base_version:
            t._value = view.read(self.cx, view.base._value)
            view.base_version = view.base._writes
            t._writes += 1

    def _convert(self, arg: Any) -> Any:
        kind = type(arg)
        if kind is TracedTensor:
            return self.value_of(arg)
        if kind in _PLAIN:
            return arg
        if kind is SymInt:
            return unwrap(arg.node)
        if isinstance(arg, list | tuple):
            return [self._convert(a) for a in arg]
        if isinstance(arg, Tensor):
            return self.value_of(arg)
        if kind is SymFloat:
            node = arg.node
            return node.constant if node.constant is not None else node
        if kind is SymBool:
            return arg.node.guard_bool()
        return arg

    @staticmethod
    def is_supported(tensor: Tensor) -> bool:
        """Whether tensors of this element type are compiled."""
        return tensor.dtype in NAME_OF

    @staticmethod
    def dtype_name(tensor: Tensor) -> str:
        """The IR's name of a tensor's element type."""
        return name_of(tensor.dtype)

    # -- dispatch ---------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every op of torch while the mode is on."""
        return self.dispatch(func, args, kwargs or {})

    def dispatch(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Build one op and return tensors for its results."""
        shapes = self.shapes
        eager = shapes.eager_bool
        shapes.eager_bool = False
        if eager:
            self.b.where = current_source_line()
        try:
            out = self._dispatch(func, args, kwargs)
        except Unsupported as error:
            if error.where is not None:
                raise
            raise Unsupported(error.what, error.why, error.hint, current_source_line()) from error
        finally:
            shapes.eager_bool = eager
        if eager:
            self.after_op()
        return out

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        op = _ops.get(func) or _describe(func)
        if op.composite is not None:
            out = op.composite(self, *args, **kwargs)
            if out is not NotImplemented:
                return out
        if op.rule is not None:
            values = [self._convert(a) for a in args]
            options = {k: self._convert(v) for k, v in kwargs.items()} if kwargs else kwargs
            out = op.rule(self.cx, *values, **options)
            if out is not NotImplemented:
                self.op_count += 1
                return self._results(op, out, args, values[1:], options)
        return self._without_rule(func, op, args, kwargs)

    def _device(self, args: Sequence[Any], kwargs: dict[str, Any]) -> torch.device:
        """Where the results of an op are."""
        if kwargs.get("device") is not None:
            return torch.device(kwargs["device"])
        for arg in args:
            if isinstance(arg, Tensor) and (arg.ndim or arg.device != _CPU):
                return arg.device
            if isinstance(arg, list | tuple) and arg and isinstance(arg[0], Tensor):
                return arg[0].device
        for arg in args:
            if isinstance(arg, Tensor):
                return arg.device
        return self.device

    def _results(
        self, op: _Op, out: Any, args: Sequence[Any], tail: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        device = self._device(args, kwargs)
        if not op.is_view:
            if type(out) is Value:
                return self.wrap(out, device)
            return [None if v is None else self.wrap(v, device) for v in out]
        base = self.traced(args[0])
        if type(out) is Value:
            return self._view(op, out, base, tail, kwargs, None)
        return [self._view(op, v, base, tail, kwargs, i) for i, v in enumerate(out)]

    def _view(
        self,
        op: _Op,
        value: Value,
        base: TracedTensor,
        tail: Sequence[Any],
        kwargs: dict[str, Any],
        index: int | None,
    ) -> TracedTensor:
        strides = views.view_strides(op.name, base._value.shape, base._strides, tail, value.shape)
        out = self.wrap(value, base.device, strides)
        assert op.rule is not None
        out._view = views.View(base, op.name, op.rule, tail, kwargs, index, base._writes)
        return out

    # -- writes -----------------------------------------------------------------------------------
    def write(self, tensor: Tensor, value: Value) -> TracedTensor:
        """Set a tensor, and what it is a view of, to a value."""
        target = self.traced(tensor)
        if self._any_write:
            self._refresh(target)
        self._any_write = True
        if self._perhaps_views:
            self._settle_aliases(target)
        shape, dtype = target._value.shape, target._value.dtype
        value = self.cx.broadcast(self.cx.convert(value, dtype), shape)
        if target._view is not None:
            view = target._view
            if view.replay is not None:
                self.require_dense(target)
            self.write(view.base, view.write(self.cx, view.base._value, value))
            view.base_version = view.base._writes
        else:
            self.written[id(target)] = target
        target._value = value
        target._writes += 1
        return target

    def require_dense(self, tensor: TracedTensor) -> None:
        """Note that the trace is wrong if the tensor behind a view has gaps."""
        root = views.root_of(tensor)
        if root._is_argument:
            self.needs_dense.add(id(root))

    def copied_reshape(self, copy: TracedTensor, source: TracedTensor) -> None:
        """Note a reshape by copy that would be a view if some of the sizes were 1."""
        sizes = [s for s in source._value.shape if isinstance(s, Dim)]
        if sizes:
            self._perhaps_views.append((views.root_of(copy), views.root_of(source), sizes))

    def _settle_aliases(self, target: TracedTensor) -> None:
        """Before a write: guard that no reshape by copy has to share memory with its target."""
        root = views.root_of(target)
        for copy, source, sizes in self._perhaps_views:
            if root is copy or root is source:
                for size in sizes:
                    if self.shapes.guard(size.eq(1), "branch"):
                        self._refuse(
                            "writing to a tensor after reshape()",
                            f"whether the two share memory depends on the size {size}, which is 1",
                        )

    def _in_place(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The functional form, then a write."""
        target = self.traced(args[0])
        self._refresh(target)
        name = func._schema.name.split("::")[1]
        if name == "detach_":  # changes what autograd knows, not the content
            return args[0]
        packet = getattr(torch.ops.aten, _functional_name(name), None)
        functional = getattr(packet, func._overloadname, None)
        if functional is None:
            self._refuse(str(func), "it changes a tensor in a way that the tracer does not know")
        out = self.value_of(self._dispatch(functional, args, kwargs))
        if len(out.shape) != len(target._value.shape):
            self._refuse(str(func), "it changes the shape of a tensor in place")
        self.write(args[0], out)
        return args[0]

    # -- ops without a rule -----------------------------------------------------------------------
    def _refuse(self, what: str, why: str, hint: str = "") -> Any:
        raise Unsupported(what, why, hint, current_source_line())

    def _without_rule(self, func: Any, op: _Op, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if torch.Tag.data_dependent_output in func.tags or op.name == "aten.is_nonzero.default":
            self._refuse(
                f"reading the value of a tensor ({op.name})",
                "Python would need data that only exists when the program runs",
                "replace `.item()`, `if tensor:` and `.tolist()` by operations on tensors",
            )
        if torch.Tag.dynamic_output_shape in func.tags:
            self._refuse(op.name, "the size of its result depends on the data")
        if op.writes_first and not op.is_out:
            return self._in_place(func, args, kwargs)
        if func._schema.is_mutable:
            self._refuse(op.name, "it writes to a tensor that it is given")
        out = self._decompose(func, args, kwargs)
        return self._extern(func, op, args, kwargs) if out is NotImplemented else out

    def _decompose(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Through torch's own decomposition, if that leads somewhere."""
        steps: list[Callable[..., Any]] = []
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            steps.append(func.decompose)
        table = decomposition_table.get(func)
        if table is not None and str(func) not in _KEPT_WHOLE:
            steps.append(table)
        for step in steps:
            self._decomposing += 1
            try:
                with self:
                    out = step(*args, **kwargs)
            except Unsupported:
                raise
            except Exception:  # a decomposition that cannot take symbolic sizes
                continue
            finally:
                self._decomposing -= 1
            if out is not NotImplemented:
                return out
        return NotImplemented

    def _extern(self, func: Any, op: _Op, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Left to the framework: sizes by the op's own meta kernel on our symbolic sizes."""
        if self._decomposing and func.namespace != "aten":
            raise _NoGoodDecomposition(op.name)
        outs = self._meta_results(func, op, args, kwargs)
        inputs: list[Value] = []

        def as_template(arg: Any) -> Any:
            if isinstance(arg, Tensor):
                inputs.append(self.value_of(arg))
                return {"t": len(inputs) - 1}
            arg = self._convert(arg) if isinstance(arg, SymInt | SymFloat | SymBool) else arg
            if isinstance(arg, Dim):
                return {"d": str(arg)}
            if isinstance(arg, Real):
                self._refuse(op.name, f"it is given a float computed from sizes, {arg}")
            return arg

        try:
            template = encode(args, kwargs, as_template)
        except TypeError as error:
            self._refuse(op.name, str(error))
        kept = [o for o in outs if o is not None]
        shapes = [(tuple(unwrap_size(s) for s in o.shape), name_of(o.dtype)) for o in kept]
        reason = f"no rule for {op.name}"
        values = iter(self.b.extern(op.name, inputs, template, shapes, reason))
        is_view = _ops[func].is_view
        self.externs.append(ExternSite(op.name, reason, current_source_line(), is_view))
        self.op_count += 1
        device = self._device(args, kwargs)
        results = [None if o is None else self.wrap(next(values), device) for o in outs]
        single = len(func._schema.returns) == 1 and not isinstance(
            func._schema.returns[0].type, torch.ListType
        )
        if op.is_view:
            self._mark_views(op, results, args, kwargs, single)
        return results[0] if single else results

    def _mark_views(
        self, op: _Op, results: list[Any], args: Sequence[Any], kwargs: dict[str, Any], single: bool
    ) -> None:
        """Make the results of an extern views of its first argument."""
        base = self.traced(args[0])
        tail = [self._convert(a) for a in args[1:]]
        options = {k: self._convert(v) for k, v in kwargs.items()}
        for number, result in enumerate(results):
            index = None if single else number

            def again(cx: LoweringContext, value: Value, *_: Any, **__: Any) -> Any:
                like = self.wrap(value, base.device)
                found = self._extern(op.func, replace(op, is_view=False), (like, *args[1:]), kwargs)
                return found._value if single else [f._value for f in found]

            result._view = views.View(base, op.name, again, tail, options, index, base._writes)

    def _meta_results(
        self, func: Any, op: _Op, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> list[Any]:
        from torch._dispatch.python import enable_python_dispatcher

        if op.name in _LIKE_FIRST or op.name in _LIKE_FIRST_TWICE:
            value = self.value_of(args[0])
            dtype = kwargs.get("dtype") or TORCH_OF[value.dtype]
            like = _Like(value.shape, dtype)
            second = _LIKE_FIRST_TWICE.get(op.name)
            return [like] if second is None else [like, _Like(value.shape, second)]

        rule = shape_rule_of(op.name)
        if rule is not None:
            values = [self._convert(a) for a in args]
            shape = rule(self.cx, *values, **{k: self._convert(v) for k, v in kwargs.items()})
            return [_Like(shape, TORCH_OF[values[0].dtype])]

        def meta(arg: Any) -> Any:
            if isinstance(arg, Tensor):
                sizes = [self.symint(s) for s in self.value_of(arg).shape]
                return torch.empty(sizes, dtype=arg.dtype, device="meta")
            if isinstance(arg, list | tuple):
                return [meta(a) for a in arg]
            return torch.device("meta") if isinstance(arg, torch.device) else arg

        try:
            with _disable_current_modes(), enable_python_dispatcher():
                options = {k: meta(v) for k, v in kwargs.items()}
                if any(str(a.type) == "Optional[Device]" for a in func._schema.arguments):
                    options["device"] = torch.device("meta")
                out = func(*(meta(a) for a in args), **options)
        except Unsupported:
            raise
        except Exception as error:
            self._refuse(op.name, f"no rule, and its result's size is not known: {error}")
        return list(out) if isinstance(out, list | tuple) else [out]


_KEPT_WHOLE = frozenset(
    f"aten.{name}"
    for name in (
        "native_dropout.default",
        "bernoulli.default",
        "bernoulli.p",
        "convolution.default",
        "max_pool2d_with_indices.default",
        "unfold.default",
    )
)
"""Ops whose decomposition is worse: other random numbers, a gather for each place of a window."""

_LIKE_FIRST = frozenset(
    (
        *("aten.rand_like.default", "aten.randn_like.default", "aten.bernoulli.default"),
        *("aten.normal_functional.default", "aten.uniform.default", "aten.bernoulli.p"),
    )
)
"""Ops without a rule whose result has the shape of their first argument."""

_LIKE_FIRST_TWICE = {
    "aten.native_dropout.default": torch.bool,
    "aten.cummax.default": torch.int64,
    "aten.cummin.default": torch.int64,
}
"""Those with two results of that shape: the type of the second."""


@dataclass(frozen=True, slots=True)
class _Like:
    """Shape and type of a result."""

    shape: Any
    dtype: torch.dtype


def _functional_name(name: str) -> str:
    """The op that computes what an in-place op writes."""
    if name == "normal_":
        return "normal_functional"
    if name.startswith("__i"):
        return f"__{name.removeprefix('__i')}"
    return name.removesuffix("_")


class _NoGoodDecomposition(Exception):
    """A decomposition led to an internal op of torch without a rule: better keep the op whole."""


def unwrap_size(size: Any) -> Any:
    """An int or a Dim of an int or a SymInt."""
    return unwrap(size.node) if isinstance(size, SymInt) else size
