"""The states of a book: listing, pre-opening, the last minutes, auctions, continuous trading and halts."""

from __future__ import annotations

from bursa.market.auction import find_auction
from bursa.market.commands import HaltBook, ListInstrument, OpenBook, PreopenBook, ResumeBook
from bursa.market.events import AuctionHeld, BookStateChanged, Done, InstrumentListed, Rejected
from bursa.market.matching import close_bid, fill
from bursa.market.refusals import check_price, check_slug, refuse
from bursa.market.state import Book, Sides, State
from bursa.market.timers import TimerKind
from bursa.market.trading import match_resting
from bursa.market.transitions import BOOK, allows, move
from bursa.market.types import DAY_NS, MINUTE_NS, BookState, OrderState, Rejection
from bursa.market.volatility import moves_too_far

_BOOK = int(TimerKind.BOOK)
#: Order books of one engine.
INSTRUMENTS_MAX = 10_000


def on_list_instrument(state: State, command: ListInstrument, at_ns: int) -> Done | Rejected:
    """Add a book, or set the operator's reference price of one."""
    refusal = check_slug("instrument", command.instrument)
    if not refusal and command.reference_micros:
        refusal = check_price(state, "reference_micros", command.reference_micros)
    if refusal:
        return refusal
    book = state.books.get(command.instrument)
    if book is None:
        if len(state.books) >= INSTRUMENTS_MAX:
            return refuse(Rejection.LIMIT_REACHED, "instrument", f"at most {INSTRUMENTS_MAX} instruments")
        book = Book(number=len(state.instruments), instrument=command.instrument)
        state.instruments.append(book.instrument)
        state.books[book.instrument] = book
        state.sides[book.instrument] = Sides()
    book.reference_micros = command.reference_micros
    assert state.book_by_number(book.number) is book, book
    assert at_ns >= state.now_ns, at_ns
    state.events.append(InstrumentListed(book.instrument, book.reference_micros))
    return Done()


def _books_for(state: State, instrument: str, what: str) -> list[Book] | Rejected:
    """Return the named book, or all that ``what`` may happen to; the refusal when there is none."""
    if instrument and instrument not in state.books:
        return refuse(Rejection.UNKNOWN_INSTRUMENT, "instrument", "the slug of a listed GPU model, or empty for all")
    named = [state.books[instrument]] if instrument else list(state.books.values())
    books = [book for book in named if allows(BOOK, book.state, what)]
    if books:
        return books
    states = sorted({before.value for before, trigger in BOOK if trigger == what})
    return refuse(Rejection.WRONG_STATE, "instrument", f"a book that is {' or '.join(states)}")


def move_book(state: State, book: Book, what: str, due_ns: int) -> None:
    """Move a book to its next state and plan the one after that (0 = nothing planned)."""
    before = book.state
    book.state = move(BOOK, before, what)
    book.due_ns = due_ns
    state.timers.add(due_ns, _BOOK, book.number)
    state.events.append(BookStateChanged(book.instrument, before, book.state, due_ns))


def on_preopen_book(state: State, command: PreopenBook, at_ns: int) -> Done | Rejected:
    """Let orders rest before the opening, or move the time of the opening, even in its last minutes."""
    if command.opens_at_ns and not at_ns < command.opens_at_ns <= at_ns + 366 * DAY_NS:
        return refuse(Rejection.INVALID_FIELD, "opens_at_ns", "0, or a time within a year from now")
    if command.instrument and command.instrument not in state.books:
        return refuse(Rejection.UNKNOWN_INSTRUMENT, "instrument", "the slug of a listed GPU model, or empty for all")
    named = [state.books[command.instrument]] if command.instrument else list(state.books.values())
    books = [book for book in named if book.state not in {BookState.OPEN, BookState.HALTED}]
    if not books:
        return refuse(Rejection.WRONG_STATE, "instrument", "a book that was not opened yet")
    for book in books:
        book.opens_at_ns = command.opens_at_ns
        due_ns = max(at_ns, book.opens_at_ns - state.rules.no_cancel_minutes * MINUTE_NS) if book.opens_at_ns else 0
        is_first = book.state is BookState.CLOSED
        move_book(state, book, "operator pre-opens" if is_first else "operator moves the opening", due_ns)
    assert all(book.state is BookState.PREOPEN for book in books), books
    assert all(book.opens_at_ns == command.opens_at_ns for book in books), books
    return Done()


def on_open_book(state: State, command: OpenBook, at_ns: int) -> Done | Rejected:
    """Hold the opening auction now."""
    books = _books_for(state, command.instrument, "operator opens")
    if isinstance(books, Rejected):
        return books
    for book in books:
        hold_auction(state, book, "operator opens", at_ns)
    assert all(book.state is BookState.OPEN for book in books), books
    assert all(book.due_ns == 0 for book in books), books
    return Done()


def on_halt_book(state: State, command: HaltBook, at_ns: int) -> Done | Rejected:
    """Stop matching and new orders until the operator resumes; a halt that would end by itself is prolonged."""
    books = _books_for(state, command.instrument, "operator halts")
    if isinstance(books, Rejected):
        return books
    for book in books:
        move_book(state, book, "operator halts", 0)
    assert all(book.state is BookState.HALTED for book in books), books
    assert at_ns >= state.now_ns, at_ns
    return Done()


def on_resume_book(state: State, command: ResumeBook, at_ns: int) -> Done | Rejected:
    """End a halt by an auction."""
    books = _books_for(state, command.instrument, "operator resumes")
    if isinstance(books, Rejected):
        return books
    for book in books:
        hold_auction(state, book, "operator resumes", at_ns)
    assert all(book.state is BookState.OPEN for book in books), books
    assert all(book.due_ns == 0 for book in books), books
    return Done()


def hold_auction(state: State, book: Book, what: str, at_ns: int) -> None:
    """Trade everything that an auction trades at its one price, then open and trade on continuously."""
    result = find_auction(state, book, at_ns)
    unfilled = tuple(bid.order_id for bid in result.unfilled)
    state.events.append(
        AuctionHeld(book.instrument, result.price_micros, result.gpu_hours, result.imbalance_gpus, unfilled)
    )
    book.window.clear()
    book.window_low = book.window_high = 0
    for bid, ask, host in result.fills:
        fill(state, bid, ask, host, result.price_micros, None, at_ns)
        if bid.leaves == 0:
            close_bid(state, bid, OrderState.FILLED, at_ns)
    if result.price_micros:
        book.auction_micros = result.price_micros
    book.opens_at_ns = 0
    move_book(state, book, what, 0)
    match_resting(state, book, at_ns)


def book_is_due(state: State, book: Book, at_ns: int) -> None:
    """Make the planned move of a book: into the last minutes, the opening, or out of a halt."""
    if book.state is BookState.PREOPEN:
        move_book(state, book, "last minutes begin", max(at_ns, book.opens_at_ns))
    elif book.state is BookState.NO_CANCEL:
        hold_auction(state, book, "opening time", at_ns)
    else:
        assert book.state is BookState.HALTED, book
        hold_auction(state, book, "halt is over", at_ns)


def halt_if_volatile(state: State, at_ns: int) -> None:
    """Halt the books in which the command in hand moved the price too far."""
    rules = state.rules
    for instrument in sorted(state.moved):
        book = state.books[instrument]
        if book.state is BookState.OPEN and moves_too_far(
            book,
            at_ns,
            state.parties,
            window_minutes=rules.halt_window_minutes,
            move_percent=rules.halt_move_percent,
            owners_min=rules.halt_owners_min,
        ):
            move_book(state, book, "price moves too far", at_ns + rules.halt_minutes * MINUTE_NS)
    state.moved.clear()
