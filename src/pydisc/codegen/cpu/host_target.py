"""Which CPU this process runs on."""

from functools import cache
from pathlib import Path

from pydisc.support.errors import Unsupported
from pydisc.targets.cpu import CpuTarget

_CPU_INFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
_USED = _AVX512 | {"avx2", "fma", "f16c", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8"}
_USED |= {"asimd", "bf16", "i8mm", "asimddp", "sve"}


@cache
def detect_cpu_target() -> CpuTarget:
    """The CPU of this machine; the code that ExecutionEngine makes runs on it."""
    return parse_cpu_info(
        _CPU_INFO.read_text(), _cache_size("1", 32 << 10), _cache_size("2", 512 << 10)
    )


def parse_cpu_info(text: str, l1: int, l2: int) -> CpuTarget:
    """Read the first processor of a /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value)
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    features = tuple(sorted(flags & _USED))
    if flags >= _AVX512:
        return CpuTarget("x86-64-avx512", 16, 32, l1, l2, features)
    if flags >= {"avx2", "fma", "f16c"}:
        return CpuTarget("x86-64-avx2", 8, 16, l1, l2, features)
    if "asimd" in flags:
        return CpuTarget("aarch64-neon", 4, 32, l1, l2, features)
    raise Unsupported(
        "this CPU", "pydisc needs AVX2 with FMA, or AArch64", "run the model without pydisc"
    )


def _cache_size(level: str, default: int) -> int:
    for entry in sorted(_CACHES.glob("index*")) if _CACHES.is_dir() else ():
        try:
            if (entry / "level").read_text().strip() != level:
                continue
            if (entry / "type").read_text().strip() == "Instruction":
                continue
            size = (entry / "size").read_text().strip()
            return int(size.removesuffix("K")) << 10
        except (OSError, ValueError):
            continue
    return default
