"""bursa: a spot exchange for GPU hours that knows what fits.

The package root holds the version and nothing else; each room below it is imported by its own name
(`bursa.market`, `bursa.money`, `bursa.errors`), so that importing one never pays for another.
"""

__version__ = "0.1.0"
