"""Empty dialect modules: MLIR finds and caches them instead of retrying a failed import for each op view."""
