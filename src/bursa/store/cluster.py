"""A cluster of PostgreSQL in a folder of ours: where its parts lie, who owns them, how it is set up.

    FOLDER/                 ours; root makes it enterable (0711), so that the server's user gets to its part
    ├── bursa.lock          held while a supervisor runs, says which process
    ├── passwords.json      0600, random passwords of the three roles
    ├── postgresql.conf · pg_hba.conf · pg_ident.conf    written by us at every start, read by the server
    ├── postgres.log        what the server says, limited
    ├── postgres/           0700, the cluster itself, owned by the server's user
    └── socket/             0700, the only way in (under the temporary folder if the path would be too long)

Invariants: nothing listens on TCP, nobody is trusted, checksums are on, a commit that was confirmed is on disk. The
server never runs as root. Only what lies in FOLDER changes its owner or rights.
"""

import hashlib
import json
import os
import pwd
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from psycopg.conninfo import make_conninfo

from bursa.errors import DatabaseVersionError, DataDirectoryError
from bursa.store.programs import run_program

Role = Literal["app", "reader", "migrator", "superuser"]

#: The role names in PostgreSQL. The superuser exists in embedded clusters only, and only its own system user gets in.
ROLE_NAMES: Final[dict[Role, str]] = {
    "app": "bursa_app",
    "reader": "bursa_reader",
    "migrator": "bursa_migrator",
    "superuser": "postgres",
}
#: The roles that log in by password.
LOGIN_ROLES: Final[tuple[Role, ...]] = ("app", "reader", "migrator")
DATABASE: Final = "bursa"
#: Names the socket's file only: nothing listens on TCP.
PORT: Final = 5432
#: The size of a socket's path in the kernel (sun_path) less its end mark, in bytes.
SOCKET_PATH_BYTES_MAX: Final = 107
#: The first user id to try for the server where we are root: high, below 65,534 (nobody), in use nowhere we know of.
SERVER_UID: Final = 54_329
#: Bytes of randomness in a password.
PASSWORD_BYTES: Final = 32
CONNECTIONS_MAX: Final = 100
#: The version of the binaries; a cluster of another one has to be dumped and restored.
POSTGRES_MAJOR: Final = 18

#: A commit that was confirmed is on disk. Given on the command line, which no file and no ALTER SYSTEM overrides.
SAFETY: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": ""}

_SETTINGS: Final = {
    "max_connections": str(CONNECTIONS_MAX),
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "wal_level": "replica",
    "wal_compression": "on",
    "max_wal_senders": "4",
    "checkpoint_timeout": "15min",
    "password_encryption": "scram-sha-256",
    "jit": "off",  # our queries are short
    "timezone": "UTC",
    "log_timezone": "UTC",
    "datestyle": "ISO, YMD",
    "lc_messages": "C",
    "default_text_search_config": "pg_catalog.simple",
    "unix_socket_permissions": "0700",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",  # a statement may carry a password
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "restart_after_crash": "on",
    "track_functions": "none",
}

_HBA: Final = """\
local all         postgres peer map=bursa
local replication postgres peer map=bursa
local all         all      scram-sha-256
"""


@dataclass(frozen=True)
class Cluster:
    """One cluster's places and owner. folder: absolute. uid: the user that the server runs as."""

    folder: Path
    uid: int

    @property
    def data(self) -> Path:
        """The server's own folder (PGDATA)."""
        return self.folder / "postgres"

    @property
    def pid_file(self) -> Path:
        """Where a running server says its pid and state."""
        return self.data / "postmaster.pid"

    @property
    def log_file(self) -> Path:
        """What the server says."""
        return self.folder / "postgres.log"

    @property
    def password_file(self) -> Path:
        """The passwords of the roles, for their owner only."""
        return self.folder / "passwords.json"

    @property
    def config_file(self) -> Path:
        """The server's settings, written by us."""
        return self.folder / "postgresql.conf"

    @property
    def socket_folder(self) -> Path:
        """Where the socket lies: in the folder, or in the temporary folder if its path would be too long."""
        near = self.folder / "socket"
        if len(os.fsencode(near / f".s.PGSQL.{PORT}")) < SOCKET_PATH_BYTES_MAX:
            return near
        mark = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"bursa-{mark}"


def find_cluster(data_dir: Path) -> Cluster:
    """Say where the parts of a data folder lie and who owns them. Makes nothing."""
    folder = data_dir.absolute().resolve()
    data = folder / "postgres"
    user = os.geteuid()
    owner = data.stat().st_uid if data.is_dir() else user
    if user not in (0, owner):
        raise DataDirectoryError("data folder", str(folder), f"to be used by its owner, user {owner}, or by root")
    return Cluster(folder, owner if owner != 0 else _free_uid())


def _free_uid() -> int:
    """Return the first id from SERVER_UID on that no account has."""
    taken = {account.pw_uid for account in pwd.getpwall()}
    return next(uid for uid in range(SERVER_UID, SERVER_UID + len(taken) + 1) if uid not in taken)


def make_folder(folder: Path) -> None:
    """Make a data folder; for root, so that the server's user may pass through. An existing one stays as it is."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True, parents=True)
        if os.geteuid() == 0 and not any(folder.iterdir()):
            folder.chmod(0o711)
    except OSError as error:
        raise DataDirectoryError("data folder", str(folder), f"a folder we may write to ({error.strerror})") from error


def check_version(cluster: Cluster) -> bool:
    """Return whether the cluster is made; DatabaseVersionError if by another major version of PostgreSQL."""
    try:
        major = (cluster.data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return False
    if major != str(POSTGRES_MAJOR):
        raise DatabaseVersionError(
            "PG_VERSION", major, f"{POSTGRES_MAJOR}; dump {cluster.data} with its own version and restore the dump"
        )
    return True


def create_cluster(cluster: Cluster, programs: Path) -> None:
    """Make the cluster, whole or not at all: a draft is renamed when it is done and on disk."""
    draft = cluster.folder / "postgres.new"
    if draft.exists():  # of a process that was killed here
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    # initdb wants a user with a name, the server does not: nobody makes the cluster, a user of its own gets it.
    maker = _find_account("nobody" if os.geteuid() == 0 else None).pw_uid
    os.chown(draft, maker, -1)
    options = ["--username=postgres", "--auth=reject", "--encoding=UTF8", "--locale-provider=builtin"]
    command = [str(programs / "bin" / "initdb"), f"--pgdata={draft}", "--locale=C.UTF-8", "--data-checksums", *options]
    run_program(command, uid=maker)
    give_to(draft, cluster.uid)
    draft.rename(cluster.data)
    _flush(cluster.folder)


def _find_account(name: str | None = None) -> pwd.struct_passwd:
    """Return the account of that name, by default our own."""
    try:
        return pwd.getpwnam(name) if name else pwd.getpwuid(os.geteuid())
    except KeyError:
        raise DataDirectoryError("user", name or os.geteuid(), "one with an account in /etc/passwd") from None


def give_to(folder: Path, uid: int) -> None:
    """Make uid the owner of a folder and all in it. Does nothing unless we are root and it is not yet."""
    if os.geteuid() != 0 or folder.stat().st_uid == uid:
        return
    for path, _, names in os.walk(folder):
        os.chown(path, uid, uid, follow_symlinks=False)
        for name in names:
            os.chown(Path(path) / name, uid, uid, follow_symlinks=False)


def write_settings(cluster: Cluster) -> None:
    """Write the server's configuration and make the folder of its socket."""
    _make_socket_folder(cluster)
    places = {
        "hba_file": str(cluster.folder / "pg_hba.conf"),
        "ident_file": str(cluster.folder / "pg_ident.conf"),
        "unix_socket_directories": str(cluster.socket_folder),
        "port": str(PORT),
        "cluster_name": "bursa",
    }
    lines = [f"{name} = '{_quote(value)}'" for name, value in {**_SETTINGS, **SAFETY, **places}.items()]
    head = "# Written by bursa at every start.\n"
    user = _find_account().pw_name
    for name, text in {
        "postgresql.conf": head + "\n".join(lines) + "\n",
        "pg_hba.conf": head + _HBA,
        "pg_ident.conf": f'{head}bursa "{user}" postgres\n',
    }.items():
        write_whole(cluster.folder / name, text, mode=0o644)


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _make_socket_folder(cluster: Cluster) -> None:
    folder = cluster.socket_folder
    try:
        folder.mkdir(mode=0o700)
        os.chown(folder, cluster.uid, -1)
    except FileExistsError:
        found = folder.lstat()
        if not folder.is_dir() or folder.is_symlink() or found.st_uid != cluster.uid or found.st_mode & 0o077:
            raise DataDirectoryError(
                "socket folder", str(folder), f"a folder of user {cluster.uid} alone (0700); remove it if it is stale"
            ) from None


def write_whole(path: Path, text: str, *, mode: int) -> None:
    """Write a file so that readers see the old one or the new one, also after a crash."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    draft.rename(path)
    _flush(path.parent)


def _flush(folder: Path) -> None:
    """Put a folder's own list of names on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_passwords() -> dict[Role, str]:
    """Return a fresh random password for each role that logs in."""
    return {role: secrets.token_urlsafe(PASSWORD_BYTES) for role in LOGIN_ROLES}


def read_passwords(cluster: Cluster) -> dict[Role, str] | None:
    """Return the passwords of the roles, or None where no cluster was set up yet."""
    try:
        found = json.loads(cluster.password_file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataDirectoryError("password file", str(cluster.password_file), f"to be readable ({error})") from error
    return {role: str(found[role]) for role in LOGIN_ROLES}


def make_dsn(cluster: Cluster, role: Role, database: str) -> str:
    """Return how to reach a database of the cluster as a role. It holds a password: never log it."""
    base = make_conninfo(host=str(cluster.socket_folder), port=PORT, dbname=database, user=ROLE_NAMES[role])
    if role == "superuser":
        return base
    passwords = read_passwords(cluster)
    if passwords is None:
        raise DataDirectoryError("data folder", str(cluster.folder), "one that was started at least once")
    return make_conninfo(base, password=passwords[role])
