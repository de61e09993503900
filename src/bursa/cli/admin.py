"""`bursa admin`: the operator's actions, through the API, and on the database where the API may be away."""
# ruff: noqa: PLC0415 - heavy parts are imported where they are used, so that help and faults come at once

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bursa.cli.commands import new_app
from bursa.cli.exits import Exit
from bursa.cli.options import CONSENT, PLACE, REACH, REPEAT, VIEW, Consent, Place, Reach, Repeat, View, Whole

if TYPE_CHECKING:
    from bursa.config import Settings
    from bursa.sdk import Call
    from bursa.wire import Done

app = new_app("admin", "Operate an exchange; needs the operator's key, or its data folder.")
app.command("bursa.cli.adminparties:party_app", name="party", help="Parties: register, tax, suspend, keys.")
app.command("bursa.cli.adminparties:key_app", name="key", help="Keys, made on the exchange's own machine.")
app.command("bursa.cli.adminparties:host_app", name="host", help="Hosts: check, suspend.")
app.command("bursa.cli.adminparties:transfer_app", name="transfer", help="Refunds and payouts: settle, return.")
app.command("bursa.cli.adminparties:end_rental", name="end-rental", help="End a rental as the operator.")


@app.command
def status(*, view: View = VIEW, reach: Reach = REACH) -> None:
    """Show how the exchange stands, and whether its books balance."""
    from bursa.cli import render, screens
    from bursa.cli.session import Session
    from bursa.sdk import admin

    item = Session(reach).ask(admin.status())
    render.show(item, view, screens.status(item))


@app.command
def instrument(
    gpu: str,
    /,
    *,
    reference_price: str,
    repeat: Repeat = REPEAT,
    view: View = VIEW,
    reach: Reach = REACH,
) -> None:
    """List a book for a GPU, or set its reference price.

    Parameters
    ----------
    gpu
        Name of the GPU, like h100-sxm.
    reference_price
        Price from which the band is measured until there are trades, in US$ per GPU-hour excluding tax; 0 clears it.
    """
    from bursa.cli.terms import read_price
    from bursa.sdk import admin
    from bursa.wire import InstrumentRequest

    price = read_price(reference_price, "--reference-price", is_zero_allowed=True)
    request = InstrumentRequest(instrument=gpu, reference_price=price)
    _do(admin.list_instrument(request, idempotency_key=repeat.idempotency_key), view, reach)


@app.command
def preopen(
    gpu: str, /, *, at: str | None = None, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH
) -> None:
    """Let orders rest in a book before it opens.

    Parameters
    ----------
    gpu
        Name of the GPU, or "all".
    at
        When it opens by an auction: a time like 2026-12-01T12:00Z or a span like 6h; else when you open it.
    """
    from bursa.cli.terms import read_time
    from bursa.sdk import admin
    from bursa.wire import PreopenRequest

    request = PreopenRequest(opens_at=None if at is None else read_time(at, "--at"))
    _do(admin.preopen_book(gpu, request, idempotency_key=repeat.idempotency_key), view, reach)


@app.command(name="open")
def open_(gpu: str, /, *, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Open a book, by an auction where orders rest.

    Parameters
    ----------
    gpu
        Name of the GPU, or "all".
    """
    from bursa.sdk import admin

    _do(admin.open_book(gpu, idempotency_key=repeat.idempotency_key), view, reach)


@app.command
def halt(
    gpu: str, /, *, consent: Consent = CONSENT, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH
) -> None:
    """Halt trading in a book: orders can be canceled, not filled.

    Parameters
    ----------
    gpu
        Name of the GPU, or "all".
    """
    from bursa.cli.session import confirm
    from bursa.sdk import admin

    if not reach.explain:
        confirm(f"Halt {gpu}?", consent)
    _do(admin.halt_book(gpu, idempotency_key=repeat.idempotency_key), view, reach)


@app.command
def resume(gpu: str, /, *, repeat: Repeat = REPEAT, view: View = VIEW, reach: Reach = REACH) -> None:
    """Resume a halted book, by an auction.

    Parameters
    ----------
    gpu
        Name of the GPU, or "all".
    """
    from bursa.sdk import admin

    _do(admin.resume_book(gpu, idempotency_key=repeat.idempotency_key), view, reach)


@app.command(name="import-rates")
def import_rates(source: str, /, *, days: Whole = 90, view: View = VIEW, reach: Reach = REACH) -> None:
    """Hand in the ECB's reference rates; wallets in EUR and GBP need one of the last days.

    Parameters
    ----------
    source
        The ECB's CSV file (eurofxref.csv, eurofxref-hist.csv, also zipped), or a URL of it.
    days
        Only those of so many days up to the newest; 0 for all.
    """
    from bursa.cli import rates, render
    from bursa.cli.session import Session
    from bursa.errors import InputError
    from bursa.sdk import admin

    if days < 0:
        raise InputError("--days", days, "a number of days, or 0 for all")
    session = Session(reach)
    with render.progress("Reading rates"):
        found = rates.read_rates(rates.fetch(source), days=days)
    if not found:
        raise InputError("SOURCE", source, "at least one rate of USD or GBP")
    done = None
    for key, request in rates.split_requests(found, f"ECB {found[0].as_of}"):
        done = session.ask(admin.import_rates(request, idempotency_key=key))
    assert done is not None, "there is a request for every rate"
    text = f"Imported {len(found)} rates, the newest of {found[0].as_of}: seq {done.seq}."
    render.show_done(done, view, text)


@app.command
def verify(*, snapshot: bool = False, view: View = VIEW, place: Place = PLACE) -> int:
    """Replay the command log and compare digest, read tables and ledger with the live ones.

    Exit code 1 where they differ.

    Parameters
    ----------
    snapshot
        Start from the newest snapshot instead of the first command: faster, and trusts what lies before.
    """
    from bursa import server
    from bursa.cli import render

    settings = _settings(place)
    with render.progress("Replaying the command log"):
        report = server.verify(settings, from_genesis=not snapshot)
    if view.json:
        facts = {"is_ok": report.is_ok, "seq": report.seq, "digest": report.digest, "differences": report.differences}
        render.write_json(facts)
    else:
        render.write_text(f"{'ok' if report.is_ok else 'differs'} seq {report.seq} digest {report.digest}")
        for difference in report.differences:
            render.write_text(f"  {difference}")
    return Exit.OK if report.is_ok else Exit.NEGATIVE


@app.command
def export(
    *,
    format: Literal["beancount", "jsonl", "csv"] = "beancount",  # noqa: A002 - the flag's name is law
    out: Path | None = None,
    place: Place = PLACE,
) -> None:
    """Write the whole ledger, to stdout or a file.

    Parameters
    ----------
    format
        Form of the export; bean-check accepts the first.
    out
        File to write; it must not exist yet.
    """
    from bursa import server
    from bursa.cli import render
    from bursa.cli.session import say
    from bursa.errors import InputError

    if out is not None and out.exists():
        raise InputError("--out", str(out), "a file that does not exist yet")
    settings = _settings(place)
    with render.progress("Exporting"):
        rows = server.export(settings, format, sys.stdout.buffer if out is None else out)
    say(f"Exported {rows} rows{'' if out is None else f' to {out}'}.")


@app.command
def backup(target: Path, /, *, place: Place = PLACE) -> None:
    """Back up the database while the exchange runs, and verify the copy.

    Parameters
    ----------
    target
        Folder for the backup, empty or absent.
    """
    from bursa import server
    from bursa.cli import render

    settings = _settings(place)
    with render.progress("Backing up"):
        path = server.backup(settings, target)
    render.write_text(f"{path}")


@app.command
def restore(source: Path, /, *, place: Place = PLACE) -> None:
    """Restore a backup into an empty data folder (--data); never over one that holds something.

    Parameters
    ----------
    source
        Folder of a backup.
    """
    from bursa import server
    from bursa.cli import render
    from bursa.cli.session import say

    settings = _settings(place)
    with render.progress("Restoring"):
        path = server.restore(settings, source)
    render.write_text(f"{path}")
    say(f"next: bursa admin verify --data {path}; then: bursa up --data {path}")


def _settings(place: Place) -> Settings:
    from bursa.config import load

    return load({"data": place.data, "database_url": place.database_url})


def _do(call: Call[Done], view: View, reach: Reach) -> None:
    """Send an operator's call and show its place in the log."""
    from bursa.cli import render
    from bursa.cli.session import Session

    done = Session(reach).ask(call)
    render.show_done(done, view, f"Done: seq {done.seq}.")
