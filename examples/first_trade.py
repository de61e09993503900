"""One trade, from top-up to the first charged hour, through the engine alone.

Run it: .venv/bin/python examples/first_trade.py
"""

from itertools import count

import bursa.market as m
from bursa.money import Currency, Money

HOUR_NS = m.HOUR_NS
ids = (f"example-{number}" for number in count(1))


def show(outcome: m.Outcome) -> None:
    """Print the trades and money movements of an outcome."""
    for event in outcome.events:
        match event:
            case m.Trade(gpus=gpus, hours=hours, price_micros=price):
                print(f"trade: {gpus} GPU for {hours} h at {Money(price, Currency.USD)} per GPU-hour")
            case m.JournalEntry(kind=kind, postings=postings):
                print(kind.lower().replace("_", " "))
                for line in postings:
                    side = "debit " if line.debit_micros else "credit"
                    amount = Money(line.debit_micros + line.credit_micros, Currency(line.currency))
                    print(f"    {line.account:24}{side} {amount}")


engine = m.Engine()
now_ns = 1_800_000_000 * m.SECOND_NS
engine.apply(m.ListInstrument(command_id=next(ids), instrument="h100-sxm"), now_ns)
engine.apply(m.OpenBook(command_id=next(ids)), now_ns)

# A seller with a checked host of 8 GPUs asks US$2.88 per GPU-hour.
engine.apply(m.RegisterParty(command_id=next(ids)), now_ns)
spec = m.HostSpec(gpus=8, country="FI", region="EU", vcpus=192, ram_gib=2_048, disk_gib=15_000)
engine.apply(m.ListHost(command_id=next(ids), party_id=1, instrument="h100-sxm", spec=spec), now_ns)
engine.apply(m.CheckHost(command_id=next(ids), host_id=1, is_verified=True), now_ns)
ask = m.PlaceAsk(command_id=next(ids), party_id=1, offers=(m.HostOffer(1, 8),), price_micros=2_880_000)
engine.apply(ask, now_ns)

# A German consumer pays US$100 in and bids 1 GPU for 4 hours, at most US$3.00.
engine.apply(m.RegisterParty(command_id=next(ids)), now_ns)
tax = m.TaxProfile(country="DE", scheme=m.VatScheme.OSS, vat_ppm=190_000)
engine.apply(m.SetTaxProfile(command_id=next(ids), party_id=2, profile=tax), now_ns)
engine.apply(
    m.CreditTopUp(command_id=next(ids), party_id=2, currency=Currency.USD, micros=100_000_000, provider="sandbox"),
    now_ns,
)
bid = m.PlaceBid(command_id=next(ids), party_id=2, instrument="h100-sxm", gpus=1, hours=4, limit_micros=3_000_000)
show(engine.apply(bid, now_ns))

# The host reports ready; an hour later its first hour is charged.
engine.apply(m.StartRental(command_id=next(ids), rental_id=1), now_ns)
show(engine.apply(m.Tick(command_id=next(ids)), now_ns + HOUR_NS))
print("audit:", m.audit(engine) or "sound")
