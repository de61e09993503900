"""One exchange for all tests of the API: it takes a second to start, and its tests keep out of each other's way."""

from collections.abc import Iterator

import pytest

from bursa.store import EmbeddedPostgres
from tests.api.stand import Stand, run_stand
from tests.postgres import make_database


@pytest.fixture(scope="session")
def stand(postgres: EmbeddedPostgres) -> Iterator[Stand]:
    with make_database(postgres) as database, run_stand(database) as running:
        yield running
