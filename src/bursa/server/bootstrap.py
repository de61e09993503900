"""What a new exchange starts with: the operator's party, the catalog's instruments with open books, a renter to try it.

Every step is a command with an id of its own, so that a start that was cut off is finished by the next one and nothing
is done twice. Keys are no commands: each is made when its party has none, and cannot be shown again. A folder without a
party's file, such as one that was restored from a backup, gets a new key; those made before still work.

Where the secrets go: `operator.toml` and `renter.toml` in the data folder, mode 0600, in the form of the user's
configuration file. They are shown once, when they are made; afterwards `BURSA_CONFIG=<data>/renter.toml bursa …` uses
one without showing it. That is why they are files: a command line with a key in it is seen by every user of the machine
and kept by the shell's history, and a newcomer's own login in ~/.config/bursa is not ours to replace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from bursa import catalog, services
from bursa.config import UserConfig
from bursa.errors import ConfigError
from bursa.hosts import DEMO_SELLERS, seed_demo
from bursa.market import Command, Done, RegisterParty, VatScheme
from bursa.money import Currency
from bursa.ops import logs
from bursa.services import Actor, Exchange
from bursa.wire import InstrumentRequest, PartyRequest, Scope, TaxRequest, TopUpRequest, parse_id, show_id, show_micros

OPERATOR_NAME: Final = "Operator"
RENTER_NAME: Final = "Demo renter"
#: Play money of the demo renter, US$.
RENTER_FUNDS: Final = "200.00"
RENTER_TAX: Final = TaxRequest(
    country="DE", scheme=VatScheme.OSS, vat_percent="19", evidence="demo", rule_version="demo"
)
RENTER_SCOPES: Final = frozenset({Scope.READ, Scope.TRADE, Scope.FUND})
OPERATOR_SCOPES: Final = frozenset(Scope)
_KEY_NAME: Final = "first start"
_LOG: Final = logs.log("bursa.server")

#: Who sends the first commands: the operator, before there is a key that says so.
FOUNDER: Final = Actor(party_id=0, key_id=0, scopes=OPERATOR_SCOPES, is_operator=True, name="first start")

_NAME_PARTY: Final = """
    INSERT INTO bursa.party_profiles (party_id, name, country, is_demo) VALUES (%s, %s, %s, true) ON CONFLICT DO NOTHING
"""
_FIND_KEY: Final = "SELECT 1 FROM bursa.api_keys WHERE party_id = %s AND name = %s LIMIT 1"


class Credentials(msgspec.Struct, frozen=True):
    """A party to act as. ``secret`` is its key where it was made just now, else "". Its repr shows no secret.

    ``is_renewed``: the party had a key, and the folder no file with it.
    """

    party: str
    path: Path
    secret: str = ""
    is_renewed: bool = False

    def __repr__(self) -> str:
        """Leave the secret out."""
        return f"Credentials({self.party}, {self.path})"


class FirstStart(msgspec.Struct, frozen=True):
    """The parties that `bursa up` made, now or at an earlier start. No renter without play money."""

    operator: Credentials
    renter: Credentials | None


async def found_operator(exchange: Exchange) -> int:
    """Register the operator's party unless that was done before; return its number."""
    reply = await services.register_party(
        exchange, FOUNDER, PartyRequest(name=OPERATOR_NAME), idempotency_key="first-start-operator"
    )
    return parse_id("party", reply.body.id)


async def found_market(exchange: Exchange, *, is_demo: bool) -> None:
    """Give every GPU of the catalog an open book, and the market its demo sellers unless it has them or wants none."""
    if is_demo:
        await seed_demo(exchange.node)
        await _name_demo_sellers(exchange)
    known = set(exchange.view.instruments())
    for gpu in catalog.gpus():
        if gpu.slug in known:
            continue
        price = show_micros(gpu.seed_price_micros) if gpu.seed_price_micros else "0"
        request = InstrumentRequest(instrument=gpu.slug, reference_price=price)
        await services.list_instrument(exchange, FOUNDER, request, idempotency_key=f"first-start-list-{gpu.slug}")
        await services.open_book(exchange, FOUNDER, gpu.slug, idempotency_key=f"first-start-open-{gpu.slug}")


async def _name_demo_sellers(exchange: Exchange) -> None:
    """Give the demo's sellers the profile that marks them as such; the market itself knows no names."""
    commands: list[Command] = [
        RegisterParty(command_id=f"demo-seller-{seller.key}", payout_account=seller.payout_account)
        for seller in DEMO_SELLERS
    ]
    # The same commands again: each is answered with the party that it made.
    answers = await exchange.node.submit_many(commands)
    async with exchange.writer.connection() as connection:
        for seller, answer in zip(DEMO_SELLERS, answers, strict=True):
            if isinstance(answer.result, Done):
                facts = (answer.result.id, f"Demo seller {seller.key}", seller.country)
                await connection.execute(_NAME_PARTY, facts)


async def found_parties(exchange: Exchange, data_dir: Path, url: str) -> FirstStart:
    """Make the operator and, where funds are play money, the demo renter, with a key each; store keys and URL."""
    operator = await _make_credentials(
        exchange,
        await found_operator(exchange),
        data_dir / "operator.toml",
        url,
        scopes=OPERATOR_SCOPES,
        is_operator=True,
    )
    if not exchange.is_sandbox:
        return FirstStart(operator, None)
    request = PartyRequest(name=RENTER_NAME, tax=RENTER_TAX)
    reply = await services.register_party(exchange, FOUNDER, request, idempotency_key="first-start-renter")
    party_id = parse_id("party", reply.body.id)
    actor = Actor(party_id=party_id, key_id=0, scopes=RENTER_SCOPES, name=_KEY_NAME)
    funds = TopUpRequest(amount=RENTER_FUNDS, currency=Currency.USD)
    await services.top_up(exchange, actor, funds, idempotency_key="first-start-top-up")
    renter = await _make_credentials(exchange, party_id, data_dir / "renter.toml", url, scopes=RENTER_SCOPES)
    return FirstStart(operator, renter)


async def _make_credentials(
    exchange: Exchange, party_id: int, path: Path, url: str, *, scopes: frozenset[Scope], is_operator: bool = False
) -> Credentials:
    """Issue a key and store it; where the party has one in its file, only bring the stored URL up to date."""
    party = show_id("party", party_id)
    async with exchange.writer.connection() as connection:
        found = await (await connection.execute(_FIND_KEY, (party_id, _KEY_NAME))).fetchone()
    if found is not None and _refresh_url(path, url):
        return Credentials(party, path)
    try:
        made = await services.issue_key(
            exchange.writer, party_id=party_id, name=_KEY_NAME, scopes=sorted(scopes), is_operator=is_operator
        )
    except services.RefusedError as error:
        if found is None:
            raise
        # Whoever has that many keys does without this one; the exchange starts all the same.
        _LOG.warning("%s is missing, and no new key was made: %s", path, error)
        return Credentials(party, path)
    UserConfig(url, made.secret).write(path)
    return Credentials(party, path, made.secret, is_renewed=found is not None)


def _refresh_url(path: Path, url: str) -> bool:
    """Return whether there is a file. Another start may listen elsewhere; what its owner wrote into it stays."""
    if not path.exists():
        return False
    try:
        stored = UserConfig.load(env={}, project_file=path.with_name("no-project-file"), user_file=path)
    except ConfigError:
        return True
    if stored.key and stored.url != url:
        UserConfig(url, stored.key).write(path)
    return True
