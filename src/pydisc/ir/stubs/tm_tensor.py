"""Stub: `tm_tensor` has no Python module of its own; see the package docstring."""
