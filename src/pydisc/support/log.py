"""The one logger of pydisc, and warnings that are said once."""

import logging
import threading
from collections.abc import Hashable

log = logging.getLogger("pydisc")

_said: set[Hashable] = set()
_lock = threading.Lock()


def warn_once(key: Hashable, message: str) -> bool:
    """Log a warning the first time this key is seen in the process; True if it was said."""
    with _lock:
        if key in _said:
            return False
        _said.add(key)
    log.warning(message)
    return True


def show(debug: int) -> None:
    """Let messages through to stderr as far as knob `debug` asks (0: warnings only)."""
    if debug <= 0:
        return
    log.setLevel(logging.DEBUG if debug > 1 else logging.INFO)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("pydisc: %(message)s"))
        log.addHandler(handler)
        log.propagate = False
