"""schemathesis over the whole document, in process: no fault of ours, and no answer that the document does not tell.

The app runs in the exchange's loop; what stands here hands requests over to it. Streams live for a moment only.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case

from bursa.api import openapi
from tests.api.stand import WAIT_S, Party, Stand
from tests.api.test_streams import limits

Message = MutableMapping[str, Any]
EXAMPLES_MAX = 15
#: Ours are refused by meaning, not only by shape: a price off its tick is a 422 though its schema is right.
REFUSALS = ["2xx", "304", "400", "401", "402", "403", "404", "409", "422"]


class Bridge:
    """An ASGI app for any loop that runs requests in the exchange's loop."""

    def lead_to(self, stand: Stand) -> None:
        self._loop = stand.loop
        self._app = stand.make_app(limits(stream_life_s=0.02, stream_heartbeat_s=0.01))

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        if scope["type"] != "http":
            assert scope["type"] == "lifespan"
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        sent: list[Message] = []

        async def run() -> None:
            parts = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive_here() -> Message:
                if parts:
                    return parts.pop()
                await asyncio.Event().wait()
                raise AssertionError

            async def send_here(message: Message) -> None:
                sent.append(message)

            await asyncio.wait_for(self._app(scope, receive_here, send_here), WAIT_S)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))
        for message in sent:
            await send(message)


BRIDGE = Bridge()
DOCUMENT = schemathesis.openapi.from_dict(
    openapi(),
    config=schemathesis.Config.from_dict({"checks": {"positive_data_acceptance": {"expected-statuses": REFUSALS}}}),
)
DOCUMENT.app = BRIDGE


@pytest.fixture(scope="session")
def keys(stand: Stand) -> dict[str, Party]:
    """Return who asks, by the tag of the operation; with that, the bridge leads somewhere."""
    BRIDGE.lead_to(stand)
    return {"operator": stand.operator, "selling": stand.register(), "": stand.register(funds="100000")}


@pytest.mark.slow
@DOCUMENT.parametrize()
@settings(max_examples=EXAMPLES_MAX, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_the_api_keeps_to_its_document(case: Case[Any], keys: dict[str, Party]) -> None:
    tag = (case.operation.tags or [""])[0]
    case.call_and_validate(headers={"Authorization": f"Bearer {(keys.get(tag) or keys['']).key}"})
