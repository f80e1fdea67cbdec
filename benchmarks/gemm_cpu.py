"""One f32 linear layer on the CPU over a sweep of rows: y = x @ w.T + b, weights packed ahead."""

from collections.abc import Callable

import torch
from torch import Tensor

from common import (
    Rows,
    explain_failure,
    finish,
    interleaved_medians,
    is_close,
    make_parser,
    measure_peak,
    names,
    pairs,
    parse,
)

Linear = Callable[[Tensor], Tensor]
IMPLS = ("eager", "onednn", "mkl", "pydisc_optimize")
M = "1,2,3,4,5,7,8,12,16,17,24,31,32,37,48,64,77,96,128,200,256,301,384,512"
NK = "768x768,3072x768,768x3072"


def build_onednn(layer: torch.nn.Linear, example: Tensor) -> Linear:
    """oneDNN with the weight in the library's own layout, packed anew for each number of rows."""
    pack = torch.ops.mkldnn._reorder_linear_weight.default
    linear = torch.ops.mkldnn._linear_pointwise.default
    weight, bias = layer.weight.detach(), layer.bias.detach()
    packed: dict[int, Tensor] = {}

    def call(x: Tensor) -> Tensor:
        m = x.shape[0]
        if m not in packed:
            packed[m] = pack(weight, m)
        return linear(x, packed[m], bias, "none", [], "")

    return call


def build_mkl(layer: torch.nn.Linear, example: Tensor) -> Linear:
    """MKL's packed product, a frozen Inductor's choice for f32; packed for each number of rows."""
    pack = torch.ops.mkl._mkl_reorder_linear_weight.default
    linear = torch.ops.mkl._mkl_linear.default
    weight, bias = layer.weight.detach(), layer.bias.detach()
    packed: dict[int, Tensor] = {}

    def call(x: Tensor) -> Tensor:
        m = x.shape[0]
        if m not in packed:
            packed[m] = pack(weight, m)
        return linear(x, packed[m], weight, bias, m)

    return call


def build_pydisc_optimize(layer: torch.nn.Linear, example: Tensor) -> Linear:
    """The layer compiled by pydisc, called as a user calls it."""
    import pydisc

    return pydisc.optimize(layer, (example,))


BUILD: dict[str, Callable[[torch.nn.Linear, Tensor], Linear]] = {
    "eager": lambda layer, example: layer,
    "onednn": build_onednn,
    "mkl": build_mkl,
    "pydisc_optimize": build_pydisc_optimize,
}


def run_layer(n: int, k: int, sizes: list[int], args, peak: float, rows: Rows) -> None:
    """All sizes of one layer; pydisc compiles once for all of them."""
    layer = torch.nn.Linear(k, n).eval()
    built: dict[str, Linear] = {}
    for impl in args.impls:
        try:
            built[impl] = BUILD[impl](layer, torch.randn(sizes[0], k))
            built[impl](torch.randn(sizes[0], k))
        except Exception as error:  # a peer that cannot run gets a row, not a crash
            case = f"{n}x{k}"
            rows.add(case, impl, "latency", None, "us", why=explain_failure(error))
    for m in sizes:
        x = torch.randn(m, k)
        expected = layer(x)
        ok = {impl: is_close(call(x), expected) for impl, call in built.items()}
        calls = {impl: (lambda call=call: call(x)) for impl, call in built.items()}  # noqa: B023
        timed = {"eager": lambda: layer(x)} | calls  # noqa: B023
        medians = interleaved_medians(timed, args.rounds, at_least=2e-3)
        eager = medians["eager"]
        flops = 2.0 * m * n * k
        for impl in built:
            value = medians[impl]
            case = f"{m}x{n}x{k}"
            rows.add(
                case, impl, "latency", value * 1e6, "us",
                vs_eager=round(eager / value, 3), limit=round(flops / peak * 1e6, 3), ok=ok[impl],
            )  # fmt: skip
            rows.add(
                case, impl, "gflops", flops / value / 1e9, "GFLOP/s", limit=round(peak / 1e9, 1)
            )


def main() -> None:
    """Parse, then one layer after another."""
    parser = make_parser(__doc__, IMPLS, rounds=11)
    parser.add_argument("--grid", "--m", dest="sizes", type=names, default=names(M), help="rows M")
    parser.add_argument("--nk", type=pairs, default=pairs(NK), help=f"output x input ({NK})")
    args = parse(parser, IMPLS)
    rows = Rows("gemm_cpu")
    with torch.no_grad():
        peak = measure_peak()
        for n, k in args.nk:
            run_layer(n, k, [int(m) for m in args.sizes], args, peak, rows)
    finish(rows, args.json)


if __name__ == "__main__":
    main()
