"""Tests of the HTTP API, most of them against a whole exchange: PostgreSQL, sequencer, services."""
