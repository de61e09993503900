"""The terminal: every verb of the exchange for people and scripts.

Role: reads flags, asks through the SDK, shows what came. It decides nothing: numbers are those of the API.
Invariants: machine output goes to stdout and nothing else does; what is said to people beside it goes to stderr; exit
codes are those of `exits`; a key is never printed except once, by the command that makes it.
"""

from bursa.cli.main import main

__all__ = ["main"]
