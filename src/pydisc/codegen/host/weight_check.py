"""Whether a weight has changed since it was packed, in a few nanoseconds a weight."""

from pydisc.codegen.common.assembly_text import PTR, Text

_FIELDS = (PTR, "i64", PTR, PTR, "i64")
"""Of the argument: entries, their count, layout, samples, their count."""


def emit_weights_changed(t: Text) -> None:
    """Emit `@weights_changed(fields) -> i64`: 1 if some weight is not as expected.

    An entry is (tensor, version, data, start): the address of the framework's tensor object and the
    values expected of it: version, data pointer of the storage, number of the first element in it.
    `layout` holds five byte offsets, see runtime/tensor_layout.py. A tensor without a version
    counter (of inference mode) does not say when it changes in place.

    A sample is (address, bits): an f32 element of a packed weight and what it was. Writes through
    `.data` move no version counter; they are seen by the samples, which are read last, when the
    storage is known to be the one they lie in.
    """
    with t.function("weights_changed", [("fields", PTR)], ["i64"]) as (fields,):
        entries, count, layout, samples, sample_count = (
            t.load(t.at(fields, i, "i64"), type_, align=8) for i, type_ in enumerate(_FIELDS)
        )
        offsets = [t.load(t.at(layout, i, "i64"), "i64", align=8) for i in range(5)]
        storage_at, data_at, counter_at, version_at, start_at = offsets
        null = t.null()
        zero = t.const(0)
        with t.loop(zero, count, 1, [zero]) as loop:
            entry = t.at(entries, t.mul(loop.index, t.const(4)), "i64")
            tensor = t.load(entry, PTR, align=8)
            version = t.load(t.at(entry, 1, "i64"), "i64", align=8)
            data = t.load(t.at(entry, 2, "i64"), "i64", align=8)
            start = t.load(t.at(entry, 3, "i64"), "i64", align=8)
            start_now = t.load(t.at(tensor, start_at, "i8"), "i64", align=8)
            storage = t.load(t.at(tensor, storage_at, "i8"), PTR, align=8)
            now = t.load(t.at(storage, data_at, "i8"), "i64", align=8)
            counter = t.load(t.at(tensor, counter_at, "i8"), PTR, align=8)
            has_counter = t.op(f'llvm.icmp "ne" {counter}, {null} : {PTR}', "i1")
            with t.when(has_counter, ["i64"]) as branch:
                read = t.load(t.at(counter, version_at, "i8"), "i32", align=4)
                branch.give(t.cast("extui", read, "i64"))
            with branch.otherwise():
                branch.give(version)
            moved = t.or_(t.xor(now, data), t.xor(start_now, start))
            differs = t.or_(moved, t.xor(branch.results[0], version))
            loop.carry(t.or_(loop.carried[0], differs))
        with t.when(t.compare("eq", loop.results[0], zero), ["i64"]) as unchanged:
            with t.loop(zero, sample_count, 1, [zero]) as more:
                sample = t.at(samples, t.mul(more.index, t.const(2)), "i64")
                address = t.load(sample, PTR, align=8)
                bits = t.load(t.at(sample, 1, "i64"), "i64", align=8)
                found = t.cast("extui", t.load(address, "i32", align=4), "i64")
                more.carry(t.or_(more.carried[0], t.xor(found, bits)))
            unchanged.give(more.results[0])
        with unchanged.otherwise():
            unchanged.give(loop.results[0])
        changed = t.compare("ne", unchanged.results[0], zero)
        t.ret(t.cast("extui", changed, "i64"))
