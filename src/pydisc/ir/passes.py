"""The base of all passes, and running a pipeline of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from torch_mlir.ir import Module
from torch_mlir.passmanager import PassManager  # pyright: ignore[reportAttributeAccessIssue]

from pydisc.ir.verify import verify
from pydisc.support.errors import InternalError


@dataclass
class PassContext:
    """What passes may ask for besides the module."""

    symbols: Any
    """The symbol table of the module (shape room)."""
    verify_level: int = 1
    facts_of: Callable[[Module], Callable[[Module], None]] | None = None
    """Reads what a module says of its sizes; the answer raises if another module says less, or the
    contrary (shape room)."""
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass:
    """A module to module transformation. Fields of a subclass are its options."""

    name: ClassVar[str]

    def run(self, m: Module, cx: PassContext) -> bool:
        """Transform; True if anything changed."""
        raise NotImplementedError

    def __str__(self) -> str:
        options = ",".join(
            f"{f.name.replace('_', '-')}={getattr(self, f.name)}" for f in fields(self)
        )
        return f"{self.name}{{{options}}}" if options else self.name


@dataclass(frozen=True)
class MlirPasses(Pass):
    """Passes of MLIR itself, by their pipeline text, anchored on the module."""

    name: ClassVar[str] = "mlir"
    pipeline: str = "canonicalize,cse"

    def run(self, m: Module, cx: PassContext) -> bool:
        """Run the pipeline. MLIR does not say whether it changed anything."""
        PassManager.parse(f"builtin.module({self.pipeline})").run(m.operation)
        return True


def run_pipeline(m: Module, passes: Sequence[Pass], cx: PassContext, level: str) -> None:
    """Run passes in order. Verify after each if `cx.verify_level` is 2, at the end if it is 1.

    That includes what is known of sizes: a pass may learn more, it may not forget or contradict.
    """
    facts = cx.facts_of if cx.verify_level else None
    keeps = facts(m) if facts is not None else None
    for one in passes:
        changed = one.run(m, cx)
        cx.counts[one.name] = cx.counts.get(one.name, 0) + int(changed)
        if cx.verify_level >= 2:
            try:
                verify(m, level)
                if facts is not None and keeps is not None:
                    keeps(m)
                    keeps = facts(m)
            except InternalError as error:
                raise InternalError(f"after {one}: {error}") from error
    if cx.verify_level == 1:
        verify(m, level)
        if keeps is not None:
            keeps(m)
