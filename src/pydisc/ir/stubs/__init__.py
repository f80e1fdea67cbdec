"""Empty dialect modules: MLIR finds them instead of retrying a failed import for each op view."""
