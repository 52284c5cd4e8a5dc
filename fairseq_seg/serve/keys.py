"""API keys: who a client is, and which memories it may read and write.

The file (TOML) holds a table per client. A key is 256 random bits, so its hash needs no salt and no slow function:

    [acme]
    key = "blake2b:..."          # what `seg-serve --new-key acme` prints
    read = ["acme.mem", "train"]
    write = ["acme.mem"]

    [anonymous]                  # requests without a key; without this table they are refused
    read = ["train"]
"""

from __future__ import annotations

import logging
import os
import secrets
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from fairseq_seg.errors import SegError
from fairseq_seg.serve.refusal import Refusal

logger = logging.getLogger(__name__)

ANONYMOUS = "anonymous"
SCHEME = "blake2b:"


@dataclass(frozen=True)
class Client:
    """Whoever sends a request, with the names of the memories that it may read and write."""

    name: str
    read: frozenset[str]
    write: frozenset[str]


class Everybody:
    """No keys: everybody may read and write all memories."""

    required = False

    def __init__(self, memories: Collection[str]):
        self._client = Client(ANONYMOUS, frozenset(memories), frozenset(memories))

    def client(self, key: str) -> Client:
        """Return the client; any key will do, because some clients always send one."""
        return self._client


class KeyFile:
    """The clients in a file, which is read again when it has changed."""

    def __init__(self, path: Path, memories: Collection[str]):
        self._path, self._memories = path, frozenset(memories)
        self._state = (0, 0, 0)  # the first request reads it again, should it have changed while models were opened
        self._clients = read_clients(path, self._memories)

    @property
    def required(self) -> bool:
        """Whether requests without a key are refused."""
        return ANONYMOUS not in self._clients

    def client(self, key: str) -> Client:
        """Return the client that has a key; an empty one is nobody's."""
        self._refresh()
        client = self._clients.get(hash_of(key) if key else ANONYMOUS)
        if client is None:
            raise Refusal(403, "The API key is wrong." if key else "This server wants an API key.")
        return client

    def _look(self) -> tuple[int, int, int]:
        status = os.stat(self._path)
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _refresh(self) -> None:
        """Take over a changed file; a damaged one is reported, and the clients stay as they were."""
        try:
            state = self._look()
            if state != self._state:
                self._state = state
                self._clients = read_clients(self._path, self._memories)
                logger.info("%s was read again", self._path)
        except (OSError, SegError) as error:
            logger.warning("%s was not read again: %s", self._path, error)


def read_clients(path: Path, memories: Collection[str]) -> dict[str, Client]:
    """Read clients by the hash of their key; `memories` are the names that the server knows."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SegError(f"The keys in {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SegError(f"{path} is not a TOML file: {error}.") from None
    clients: dict[str, Client] = {}
    for name, table in tables.items():
        place = f"{path}: [{name}]"
        if not isinstance(table, dict) or not table.keys() <= {"key", "read", "write"}:
            raise SegError(f"{place} is not a client: write a table with key, read and write.")
        read, write = (table.get(right, []) for right in ("read", "write"))
        for names in (read, write):
            if not isinstance(names, list) or not all(isinstance(memory, str) for memory in names):
                raise SegError(f"{place}: read and write are lists of names of memories.")
            if unknown := [memory for memory in names if memory not in memories]:
                raise SegError(f"{place} names {unknown[0]}, which the server does not serve: add it to --memory.")
        key = table.get("key", "")
        if name == ANONYMOUS:
            if key:
                raise SegError(f"{place} is for requests without a key: leave its key out, or rename it.")
            key = ANONYMOUS
        elif not isinstance(key, str) or not key.startswith(SCHEME) or len(key) != len(hash_of("")):
            raise SegError(f"{place} has no hash of a key: run seg-serve --new-key {name}.")
        if key in clients:
            raise SegError(f"{place} has the same key as [{clients[key].name}]: make another with --new-key.")
        clients[key] = Client(name, frozenset(read), frozenset(write))
    return clients


def hash_of(key: str) -> str:
    """Return what the file holds of a key."""
    return SCHEME + blake2b(key.encode("utf-8", "replace"), digest_size=32).hexdigest()


def new_key(name: str) -> tuple[str, str]:
    """Make a key: return it, and the table to put in the file."""
    key = secrets.token_urlsafe(32)
    return key, f'[{name}]\nkey = "{hash_of(key)}"\nread = []\nwrite = []\n'
