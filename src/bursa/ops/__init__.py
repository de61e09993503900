"""What an operator sees: logs, metrics, and the trace id that joins them.

Role: collectors and formatters that every room above may feed; nothing in here decides anything.
- `logs`: JSON lines or text, with keys, passwords and authorization headers taken out.
- `trace`: a W3C trace id per request, carried by a context variable.
- `metrics`: Prometheus collectors in a registry of their own. Loaded when first asked for: it costs more than a tenth
  of a second, which the terminal does not have.
"""

from importlib import import_module
from types import ModuleType

from bursa.ops import logs, trace

__all__ = ["logs", "metrics", "trace"]


def __getattr__(name: str) -> ModuleType:
    """Load `metrics` at its first use."""
    if name == "metrics":
        return import_module("bursa.ops.metrics")
    raise AttributeError(name)
