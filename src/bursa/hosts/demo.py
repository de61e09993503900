"""What the demo sells: a few sellers, hosts of the models with a seed price, an ask for each, open books.

Every command has an id that says what it makes, so seeding twice is seeding once: the second time each is answered as
a repeat, and what the market has made of it since stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bursa.catalog import Gpu, gpus
from bursa.hosts.ports import Answered, CommandPort
from bursa.market import (
    SIMULATED_DRIVER,
    CheckHost,
    Command,
    Done,
    HostOffer,
    HostSpec,
    ListHost,
    ListInstrument,
    OpenBook,
    PlaceAsk,
    RegisterParty,
    Rejected,
    Rejection,
)
from bursa.money import MICROS_PER_CENT, round_up
from bursa.ops import logs

_log = logs.log("bursa.hosts")
_PERCENT: Final = 100
# What a simulated host has for each of its GPUs.
_VCPUS: Final = 16
_RAM_GIB: Final = 128
_DISK_GIB: Final = 1_000
_NETWORK_MBPS: Final = 10_000


class DemoSeller(NamedTuple):
    """A seller that does not exist, and where its hosts stand."""

    key: str
    country: str
    region: str
    payout_account: str


class DemoOffer(NamedTuple):
    """A host and the ask for it: ``markup_percent`` is how far its price lies above the model's seed price."""

    key: str
    seller: str
    gpus: int
    markup_percent: int


DEMO_SELLERS: Final = (
    DemoSeller("rhein", "DE", "EU", "demo-account-rhein"),
    DemoSeller("polder", "NL", "EU", "demo-account-polder"),
    DemoSeller("prairie", "US", "NA", "demo-account-prairie"),
)
#: Of each model with a seed price: enough at that price for one lot of any usual size, and a few steps of depth.
DEMO_OFFERS: Final = (
    DemoOffer("a", "rhein", 8, 0),
    DemoOffer("b", "polder", 2, 0),
    DemoOffer("c", "prairie", 1, 1),
    DemoOffer("d", "polder", 4, 3),
    DemoOffer("e", "prairie", 8, 5),
    DemoOffer("f", "rhein", 2, 8),
)


async def seed_demo(port: CommandPort) -> int:
    """Bring the demo's sellers, books, hosts and asks into the market; return how many commands were new.

    A refusal is logged and what depends on it is left out; all else goes on. Raises UnavailableError when the
    exchange cannot take commands now; seeding again goes on where it stopped.
    """
    models = [gpu for gpu in gpus() if gpu.seed_price_micros]
    register: list[Command] = [
        RegisterParty(command_id=f"demo-seller-{seller.key}", payout_account=seller.payout_account)
        for seller in DEMO_SELLERS
    ]
    listing: list[Command] = [
        ListInstrument(
            command_id=f"demo-instrument-{gpu.slug}", instrument=gpu.slug, reference_micros=gpu.seed_price_micros
        )
        for gpu in models
    ]
    opening: list[Command] = [OpenBook(command_id=f"demo-open-{gpu.slug}", instrument=gpu.slug) for gpu in models]
    parties = await _send(port, register)
    new = _count_new(parties)
    # A book that somebody has opened already is as good.
    for commands, harmless in ((listing, None), (opening, Rejection.WRONG_STATE)):
        new += _count_new(await _send(port, commands, harmless))
    party_ids = {
        seller.key: made for seller, answer in zip(DEMO_SELLERS, parties, strict=True) if (made := _id(answer))
    }
    return new + await _seed_hosts(port, models, party_ids)


async def _seed_hosts(port: CommandPort, models: Sequence[Gpu], party_ids: dict[str, int]) -> int:
    sellers = {seller.key: seller for seller in DEMO_SELLERS}
    offers = [(gpu, offer) for gpu in models for offer in DEMO_OFFERS if offer.seller in party_ids]
    listed = await _send(
        port,
        [
            ListHost(
                command_id=f"demo-host-{gpu.slug}-{offer.key}",
                party_id=party_ids[offer.seller],
                instrument=gpu.slug,
                spec=_spec(gpu, offer.gpus, sellers[offer.seller]),
            )
            for gpu, offer in offers
        ],
    )
    hosts = [(*pair, host_id) for pair, answer in zip(offers, listed, strict=True) if (host_id := _id(answer))]
    checked = await _send(
        port,
        [
            CheckHost(command_id=f"demo-check-{gpu.slug}-{offer.key}", host_id=host_id, is_verified=True)
            for gpu, offer, host_id in hosts
        ],
    )
    asked = await _send(
        port,
        [
            PlaceAsk(
                command_id=f"demo-ask-{gpu.slug}-{offer.key}",
                party_id=party_ids[offer.seller],
                offers=(HostOffer(host_id, offer.gpus),),
                price_micros=_price(gpu, offer.markup_percent),
            )
            for gpu, offer, host_id in hosts
        ],
    )
    return _count_new(listed) + _count_new(checked) + _count_new(asked)


def _spec(gpu: Gpu, count: int, seller: DemoSeller) -> HostSpec:
    return HostSpec(
        gpus=count,
        country=seller.country,
        region=seller.region,
        vcpus=_VCPUS * count,
        ram_gib=_RAM_GIB * count,
        disk_gib=_DISK_GIB * count,
        network_mbps=_NETWORK_MBPS,
        gpu_memory_mib=gpu.memory_mib_reported or 0,
        has_ecc=gpu.ecc == "yes",
        interconnect=gpu.link_type if count > 1 else "",
        driver=SIMULATED_DRIVER,
    )


def _price(gpu: Gpu, markup_percent: int) -> int:
    """Return the seed price with a markup, up to whole cents, which are multiples of any usual tick."""
    cents = round_up(gpu.seed_price_micros * (_PERCENT + markup_percent), _PERCENT * MICROS_PER_CENT)
    return cents * MICROS_PER_CENT


async def _send(
    port: CommandPort, commands: Sequence[Command], harmless: Rejection | None = None
) -> Sequence[Answered]:
    """Submit commands; log every refusal but a harmless one."""
    answers = await port.submit_many(list(commands))
    for command, answer in zip(commands, answers, strict=True):
        result = answer.result
        if isinstance(result, Rejected) and result.code is not harmless:
            _log.warning(
                "the demo's %s was refused: %s %s, expected %s",
                command.command_id,
                result.code,
                result.field,
                result.expected,
            )
    return answers


def _id(answer: Answered) -> int:
    """Return the id of what a command made; 0 when it was refused."""
    return answer.result.id if isinstance(answer.result, Done) else 0


def _count_new(answers: Sequence[Answered]) -> int:
    return sum(not answer.is_repeat and not isinstance(answer.result, Rejected) for answer in answers)
