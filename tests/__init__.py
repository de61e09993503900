"""The tests of bursa: this package mirrors the rooms, and holds the simulator (`tests.sim`)."""
