"""Open models and memories, and serve them until told to stop."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_seg.corpus.model_folder import ModelFolder
from fairseq_seg.corpus.pairs import TRAIN
from fairseq_seg.errors import SegError

logger = logging.getLogger(__name__)

# Longer than the minute for which proxies keep a connection: one that is closed while they use it is an error to them.
KEEP_ALIVE = 75


@dataclass
class Options:
    """How to serve."""

    memory: str | None = None
    host: str = "127.0.0.1"
    port: int = 5000
    keys: Path | None = None
    allow_hosts: Sequence[str] = ()
    rate: int = 0
    queue: int = 1000
    timeout: float = 60


def serve(models: Sequence[Path], options: Options, arguments: Sequence[str] = (), **settings: Any) -> None:
    """Serve models until SIGTERM or Ctrl-C; then finish what has begun.

    `arguments` and `settings` are fairseq's options, as `Translator` takes them.
    """
    import asyncio

    import uvicorn

    from fairseq_seg.serve.app import make_app
    from fairseq_seg.serve.guard import known_hosts

    start_log()
    opened = bind(options.host, options.port)
    # What uvicorn does after a clean stop is to send itself the signal again.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with opened:
        service = open_service(models, options, arguments, settings)
        app = make_app(service, known_hosts(options.host, options.allow_hosts), options.rate)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            backlog=2048,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=int(options.timeout) + 5,
            h11_max_incomplete_event_size=65_536,
        )
        host, port = opened.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        logger.info(json.dumps({"event": "listening", "url": f"http://{shown}:{port}/"}))
        asyncio.run(uvicorn.Server(config).serve(sockets=[opened]))


def open_service(models: Sequence[Path], options: Options, arguments: Sequence[str], settings: dict[str, Any]) -> Any:
    """Open models, memories and keys."""
    from fairseq_seg.serve.detect import Detector
    from fairseq_seg.serve.direction import Direction, name_of
    from fairseq_seg.serve.keys import Everybody, KeyFile
    from fairseq_seg.serve.memories import divide_memories, langs_of
    from fairseq_seg.serve.metrics import Metrics
    from fairseq_seg.serve.service import Service

    folders = [ModelFolder.load(model) for model in models]
    for number, folder in enumerate(folders):
        if langs_of(folder) in map(langs_of, folders[:number]):
            raise SegError(f"{folder.path}: another model translates {'-'.join(langs_of(folder))}, too: leave one out.")
    if options.memory is not None:
        shares = divide_memories(options.memory, folders)
    else:
        shares = [divide_memories(str(folder.options.get("memory") or TRAIN), [folder])[0] for folder in folders]
    directions: list[Direction] = []
    try:
        for folder, share in zip(folders, shares, strict=True):
            # A sentence that was confirmed comes back verbatim, unless somebody wants it otherwise.
            usual = {} if "memory_exact" in folder.options else {"memory_exact": "copy"}
            directions.append(Direction(folder, share, usual | settings, arguments))
        names = [name_of(path) for direction in directions for path in direction.paths]
        if len(set(names) - {TRAIN}) < len([name for name in names if name != TRAIN]):
            raise SegError("Two memories have the same name: clients could not tell them apart.")
        keys = Everybody(names) if options.keys is None else KeyFile(options.keys, names)
        return Service(directions, Detector(folders), keys, Metrics(), options.queue, options.timeout)
    except BaseException:
        for direction in directions:
            direction.close_now()
        raise


def bind(host: str, port: int) -> socket.socket:
    """Take a port; nobody can connect before the server listens."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        raise SegError(f"Port {port} of {host} cannot be used ({error.strerror}): choose another --port.") from None
    return opened


class JsonLines(logging.Formatter):
    """One JSON object per line; messages that are none become one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        message = record.getMessage()
        try:
            values = json.loads(message)
            assert isinstance(values, dict)
        except (ValueError, AssertionError):
            values = {"event": "log", "message": message}
        line = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"), "level": record.levelname.lower(), **values}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def start_log() -> None:
    """Write structured lines to standard error: our own, and warnings of the libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("fairseq_seg.serve").setLevel(logging.INFO)
