"""Changing a module safely: what would crash the process in MLIR is an InternalError here."""

from collections.abc import Iterator, Mapping, Sequence

from torch_mlir.ir import Attribute, InsertionPoint, Module, Operation, Type, Value

from pydisc.support.errors import InternalError


class Rewriter:
    """Creates, replaces and erases ops of one module; counts what it changed."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.changes = 0

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[Type],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        before: Operation,
    ) -> Operation:
        """A new op in front of another, at the other's source location."""
        self.changes += 1
        return Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=dict(attributes or {}),
            loc=before.location,
            ip=InsertionPoint(before),
        )

    def replace(self, op: Operation, values: Sequence[Value]) -> None:
        """Give the users of an op's results `values` of the same types instead, and erase it."""
        if len(values) != len(op.results):
            raise InternalError(f"{op.name} has {len(op.results)} results, {len(values)} given")
        for result, value in zip(op.results, values, strict=True):
            if result.type != value.type:
                raise InternalError(f"{op.name}: {result.type} replaced by {value.type}")
            result.replace_all_uses_with(value)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        """Erase an op that nothing uses."""
        for result in op.results:
            if next(iter(result.uses), None) is not None:
                raise InternalError(f"erasing {op.name} while its result is in use")
        self.changes += 1
        op.erase()


def main_function(module: Module) -> Operation:
    """The `@main` of a module."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and op.operation.attributes["sym_name"].value == "main":
            return op.operation
    raise InternalError("the module has no function @main")


def main_ops(module: Module) -> Iterator[Operation]:
    """The ops of `@main`, in order; the current one may be erased on the way."""
    for op in list(main_function(module).regions[0].blocks[0].operations):
        yield op.operation


def defining_op(value: Value) -> Operation | None:
    """The op that a value is a result of; None for a block argument."""
    owner = value.owner
    return owner if isinstance(owner, Operation) else getattr(owner, "operation", None)
