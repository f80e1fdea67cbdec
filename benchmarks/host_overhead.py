"""What the host program costs: nanoseconds a kernel, microseconds a call, with nothing to compute.

`ns_per_kernel`: a chain of small linear layers over a batch of size 0 has kernels to start and no
work to do in them; the slope between a short chain and a long one is what each start costs.
`call_us`: the time of a whole call that adds two vectors of 16 floats, arguments to result.
"""

import torch

from common import (
    Rows,
    explain_failure,
    finish,
    interleaved_medians,
    is_close,
    make_parser,
    names,
    parse,
)

IMPLS = ("eager", "pydisc_optimize")


class Chain(torch.nn.Module):
    """Linear layers that no compiler can merge, with a tanh between them."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply them in turn."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Add(torch.nn.Module):
    """As little work as a call can do."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The sum."""
        return x + y


def build(impl: str, model: torch.nn.Module, example: tuple[torch.Tensor, ...]):
    """The model, or the model compiled ahead of its first call."""
    if impl == "eager":
        return model
    import pydisc

    return pydisc.optimize(model, example)


def measure_kernels(impl: str, depths: list[int], rounds: int, rows: Rows) -> None:
    """The slope over the depth of the chain, at batch 0; the result is checked at batch 3."""
    x, empty = torch.randn(3, 16), torch.randn(0, 16)
    chains = {depth: Chain(depth).eval() for depth in depths}
    built = {depth: build(impl, chain, (x,)) for depth, chain in chains.items()}
    ok = all(is_close(built[depth](x), chain(x)) for depth, chain in chains.items())
    calls = {str(depth): (lambda call=call: call(empty)) for depth, call in built.items()}
    medians = interleaved_medians(calls, rounds, at_least=2e-3)
    short, long = depths
    slope = (medians[str(long)] - medians[str(short)]) / (long - short)
    limit = 20.0 if impl != "eager" else None
    rows.add(f"{short}to{long}", impl, "ns_per_kernel", slope * 1e9, "ns", limit=limit, ok=ok)


def measure_call(impl: str, rounds: int, rows: Rows) -> None:
    """A whole call, nothing subtracted."""
    x, y = torch.randn(16), torch.randn(16)
    call = build(impl, Add().eval(), (x, y))
    value = interleaved_medians({impl: lambda: call(x, y)}, rounds, at_least=2e-3)[impl]
    limit = 10.0 if impl != "eager" else None
    rows.add("16", impl, "call_us", value * 1e6, "us", limit=limit, ok=is_close(call(x, y), x + y))


def main() -> None:
    """Parse and measure each way."""
    parser = make_parser(__doc__, IMPLS, rounds=21)
    parser.add_argument("--grid", type=names, default=["8", "136"], help="two depths of the chain")
    args = parse(parser, IMPLS)
    depths = [int(depth) for depth in args.grid]
    if len(depths) != 2 or depths[0] >= depths[1]:
        parser.error("--grid takes two depths, the smaller first")
    rows = Rows("host_overhead")
    with torch.no_grad():
        for impl in args.impls:
            try:
                measure_kernels(impl, depths, args.rounds, rows)
                measure_call(impl, args.rounds, rows)
            except Exception as error:  # a way that cannot run gets a row, not a crash
                rows.add("all", impl, "call_us", None, "us", why=explain_failure(error))
    finish(rows, args.json)


if __name__ == "__main__":
    main()
