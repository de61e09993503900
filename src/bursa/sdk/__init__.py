"""The Python client of an exchange: `Client` for scripts, `AsyncClient` for event loops, the same verbs on both.

Role: everything that the HTTP API can do, typed with the shapes of `bursa.wire`. It repeats what may be repeated
without harm, walks pages, follows streams, and turns problems into ApiError.

Invariants: a changing request has one idempotency key over all its repeats; the key of the user is never shown.
"""

from bursa.errors import ApiError, NetworkError
from bursa.sdk.call import Call, to_curl
from bursa.sdk.client import AsyncClient, Client
from bursa.sdk.livebook import LiveBook
from bursa.sdk.retries import Retries

__all__ = ["ApiError", "AsyncClient", "Call", "Client", "LiveBook", "NetworkError", "Retries", "to_curl"]
