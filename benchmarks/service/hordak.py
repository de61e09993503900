"""django-hordak as its documentation uses it: a transfer between two accounts is one Transaction with two Legs.

It writes a transfer and its two legs, and its triggers check that the legs balance; there are no orders and nothing is
matched. Its own database on the same server, psycopg 3, persistent connections, DEBUG off. Modules are imported by name
and late: only `make bench` installs them, and Django has to be set up before.
"""

import time
from importlib import import_module
from random import Random
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from benchmarks.market.measure import Result
from benchmarks.service.measure import latencies, wait_for_go

ACCOUNTS: Final = 100


def prepare(dsn: str) -> None:
    """Make Hordak's tables by its own migrations, and accounts to transfer between."""
    _set_up(dsn)
    import_module("django.core.management").call_command("migrate", verbosity=0, interactive=False)
    models = import_module("hordak.models")
    for number in range(ACCOUNTS):
        models.Account.objects.create(
            name=f"Wallet {number}", code=str(number), type=models.AccountType.liability, currencies=["USD"]
        )


def measure(dsn: str, seconds: float, seed: int, *, is_preparing: bool = False) -> Result:
    """Transfer over one connection for so long (or make the tables)."""
    if is_preparing:
        wait_for_go()
        prepare(dsn)
        return {}
    _set_up(dsn)
    atomic, money = import_module("django.db").transaction.atomic, import_module("moneyed").Money
    models = import_module("hordak.models")
    rng = Random(seed)
    accounts = list(models.Account.objects.all())

    def transfer() -> None:
        payer, payee = rng.sample(accounts, 2)
        amount = money(rng.randint(1, 10_000), "USD")
        with atomic():
            made = models.Transaction.objects.create(description="benchmark")
            models.Leg.objects.create(transaction=made, account=payer, debit=amount)
            models.Leg.objects.create(transaction=made, account=payee, credit=amount)

    for _ in range(5):
        transfer()
    wait_for_go()
    times: list[float] = []
    start = time.perf_counter()
    while (began := time.perf_counter()) < start + seconds:
        transfer()
        times.append(time.perf_counter() - began)
    wall = time.perf_counter() - start
    return {"orders": len(times), "seconds": wall, "per_second": len(times) / wall, "times": times} | latencies(times)


def _set_up(dsn: str) -> None:
    facts: dict[str, Any] = dict(conninfo_to_dict(dsn))
    import_module("django.conf").settings.configure(
        DEBUG=False,
        USE_TZ=True,
        SECRET_KEY="not used",  # noqa: S106 - nothing is signed
        INSTALLED_APPS=[
            "django.contrib.contenttypes", "django.contrib.auth", "mptt", "django_extensions", "hordak",
        ],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": facts["host"],
                "PORT": facts["port"],
                "NAME": facts["dbname"],
                "USER": facts["user"],
                "PASSWORD": facts.get("password", ""),
                "CONN_MAX_AGE": None,
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        HORDAK_CURRENCIES=["USD"],
        DEFAULT_CURRENCY="USD",
        HORDAK_INTERNAL_CURRENCY="USD",
        CURRENCIES=("USD",),
        HORDAK_MAX_DIGITS=20,
        HORDAK_DECIMAL_PLACES=2,
    )  # fmt: skip
    import_module("django").setup()
