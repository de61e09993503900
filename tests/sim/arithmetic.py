"""The money rules in plain integers, written anew from the law and sharing nothing with the engine or `bursa.money`."""


def customer_rate(mid_micros: int, margin_bps: int) -> int:
    """Return micro-US$ for one unit of a wallet's currency: the mid less the margin, rounded down."""
    return mid_micros * (10_000 - margin_bps) // 10_000


def net_in_wallet(price_micros: int, rate_micros: int) -> int:
    """Return the price of a GPU-hour in the wallet's currency, rounded up; rate 0 = the wallet is in US$."""
    return -(-price_micros * 1_000_000 // rate_micros) if rate_micros else price_micros


def vat(net_micros: int, vat_ppm: int) -> int:
    """Return the VAT, half to even."""
    whole, rest = divmod(net_micros * vat_ppm, 1_000_000)
    is_up = rest * 2 > 1_000_000 or (rest * 2 == 1_000_000 and whole % 2 == 1)
    return whole + is_up
