"""The composition root: builds an exchange from settings, runs it, stops it; and works on its database without it.

Role: the only room that knows all the parts. It decides nothing about the market; it decides what is started, in which
order, with which limits, and what happens when somebody asks to stop or a part goes away.
"""

from bursa.server.admin import backup, create_key, export, restore, verify
from bursa.server.running import serve, up

__all__ = ["backup", "create_key", "export", "restore", "serve", "up", "verify"]
