"""HTTP, JSON and server-sent events for programs, under /v1.

Invariant: one table of operations makes the routes and the OpenAPI document. This room decides nothing about the
market: it admits, decodes, calls one use case, and shows its answer or its refusal.
"""

from bursa.api.app import Api, create_app, routes
from bursa.api.document import openapi
from bursa.api.limits import Limits
from bursa.api.problems import problems

__all__ = ["Api", "Limits", "create_app", "openapi", "problems", "routes"]
