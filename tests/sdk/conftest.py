"""One served exchange for all tests of the SDK; each test has parties of its own."""

from collections.abc import Iterator

import pytest

from bursa.sdk import Client
from bursa.store import EmbeddedPostgres
from tests.postgres import make_database
from tests.sdk.served import Served, serve


@pytest.fixture(scope="session")
def served(postgres: EmbeddedPostgres) -> Iterator[Served]:
    with make_database(postgres) as database, serve(database) as running:
        yield running


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with served.client(served.renter()) as made:
        yield made


@pytest.fixture
def seller(served: Served) -> Iterator[Client]:
    with served.client(served.stand.seller) as made:
        yield made


@pytest.fixture
def operator(served: Served) -> Iterator[Client]:
    with served.client(served.stand.operator) as made:
        yield made
