"""Where tensors lie in memory, and whether they share it."""

import torch


def storage_of(tensor: torch.Tensor) -> int:
    """The address of a tensor's storage; 0 if it has no elements."""
    return tensor.untyped_storage().data_ptr()


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether elements of two tensors may share memory: the ranges that they span meet."""
    (first, end), (other_first, other_end) = _span(x), _span(y)
    return first < other_end and other_first < end


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether elements of a tensor may share memory with each other."""
    if tensor.is_contiguous():
        return False
    reached = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride < reached:
                return True
            reached += stride * (size - 1)
    return False


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses of the first byte of a tensor and of what comes after the last; (0, 0) if empty."""
    if not tensor.numel():
        return 0, 0
    first = tensor.data_ptr()
    last = sum(
        stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
    )
    return first, first + (last + 1) * tensor.element_size()
