"""The table of commands: name, subject, where it is defined, one line of help. The root's help is printed from it.

Nothing of a command is imported before it is called, and nothing heavy before it has work to do: `bursa --help` needs
neither Cyclopts nor Rich, `bursa buy --help` neither the wire shapes nor an HTTP client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cyclopts import App


class Command(NamedTuple):
    """One verb or noun of the root."""

    name: str
    subject: str
    path: str
    help: str


COMMANDS: Final = (
    Command("up", "Run", "running:up", "Run a whole exchange on this machine."),
    Command("serve", "Run", "running:serve", "Run a part of an exchange, for a cluster."),
    Command("admin", "Run", "admin:app", "Operate: open, halt, verify, back up, parties, rates."),
    Command("gpus", "Market", "gpus:app", "GPUs of the catalog with their best live price."),
    Command("market", "Market", "market:app", "Books, trades, state of the market."),
    Command("buy", "Trade", "trading:buy", "Rent GPUs at the best offers now."),
    Command("bid", "Trade", "trading:bid", "Bid a price, and wait for an offer to meet it."),
    Command("ask", "Trade", "trading:ask", "Offer a host's GPUs at a price."),
    Command("orders", "Trade", "orders:app", "Your bids and asks."),
    Command("rentals", "Trade", "rentals:app", "Your rentals: watch, extend, stop."),
    Command("wallet", "Party", "wallet:app", "Balances, top-up, statement."),
    Command("host", "Party", "parties:host_app", "Your hosts, as a seller."),
    Command("key", "Party", "parties:key_app", "Your API keys."),
    Command("login", "Party", "access:login", "Remember an exchange and a key."),
    Command("logout", "Party", "access:logout", "Forget the key."),
    Command("whoami", "Party", "access:whoami", "Who the key acts for, and what it may do."),
    Command("config", "Party", "access:config_app", "Show and set what the terminal uses."),
    Command("completion", "Party", "access:completion", "Print a completion script for bash, zsh or fish."),
)

SUMMARY: Final = "A spot exchange for GPU hours that knows what fits."
FIRST_STEPS: Final = """\
First steps:
  bursa gpus list                                  what there is, at which price
  bursa buy h100-sxm --hours 1 --max-price 3.50    rent at the best offer
  bursa rentals list                               what runs

Each command tells its flags: bursa COMMAND --help"""


def root_help() -> str:
    """Return the help of the root."""
    lines = ["Usage: bursa COMMAND", "", SUMMARY]
    subject = ""
    for command in COMMANDS:
        if command.subject != subject:
            subject = command.subject
            lines += ["", f"{subject}:"]
        lines.append(f"  {command.name:<12}{command.help}")
    return "\n".join(
        [*lines, "", "  --help, -h  Print this help.", "  --version   Print the version.", "", FIRST_STEPS]
    )


def build_app() -> App:
    """Return the Cyclopts app of all commands, none of them imported yet."""
    from cyclopts import App  # noqa: PLC0415 - a tenth of a second that the root's help does not need

    app = new_app("bursa", SUMMARY)
    assert isinstance(app, App)
    for command in COMMANDS:
        app.command(f"bursa.cli.{command.path}", name=command.name, help=command.help)
    return app


def new_app(name: str, summary: str) -> App:
    """Return an app without commands, in the terminal's own manner."""
    from cyclopts import App, Parameter  # noqa: PLC0415 - as above

    from bursa import __version__  # noqa: PLC0415 - as above
    from bursa.cli.helptext import HelpText  # noqa: PLC0415 - as above

    return App(
        name=name,
        help=summary,
        version=__version__,
        help_format="plaintext",
        help_formatter=HelpText(),
        default_parameter=Parameter(negative=()),
        suppress_keyboard_interrupt=False,
    )
