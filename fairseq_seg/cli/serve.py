"""seg-serve: translate for the tools that translators have, and let them add to the memory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairseq_seg.cli.model import read_options
from fairseq_seg.cli.options import DefaultsFormatter, positive
from fairseq_seg.errors import SegError, command, need


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's own options; fairseq's parser takes the rest."""
    parser = argparse.ArgumentParser(
        prog="seg-serve",
        usage="seg-serve MODEL [MODEL ...] [--memory MEMORY,...] [option ...]\n       seg-serve --new-key NAME",
        description="Serve translations over HTTP: LibreTranslate's, Apertium's and tmserver's protocols, our own API "
        "and a workbench in the browser.",
        epilog="All other options are those of fairseq-interactive, written with = (--beam=2, --cpu).",
        allow_abbrev=False,
        formatter_class=DefaultsFormatter,
    )
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL", help="model folders, one per direction")
    parser.add_argument(
        "--memory",
        metavar="MEMORY,...",
        help="memories to search, as in fairseq-interactive; new pairs go to the first that is not train, which is "
        "created if it does not exist (default: what the model folder says)",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on")
    parser.add_argument("--port", type=int, default=5000, metavar="N", help="port to listen on, 0 for any that is free")
    parser.add_argument(
        "--keys", type=Path, metavar="FILE", help="API keys, and which memories each may read and write (TOML)"
    )
    parser.add_argument("--new-key", metavar="NAME", help="print a new key and what to put in the file, and exit")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name under which browsers and clients reach the server; * for any",
    )
    parser.add_argument("--rate", type=positive, metavar="N", help="most requests per minute of one address")
    parser.add_argument("--queue", type=positive, default=1000, metavar="N", help="most texts that wait for a model")
    parser.add_argument(
        "--timeout", type=positive, default=60, metavar="SECONDS", help="give up a translation after this time"
    )
    return parser


@command("seg-serve")
def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = get_parser()
    options, rest = parser.parse_known_args(arguments)
    if options.new_key is not None:
        from fairseq_seg.serve.keys import new_key

        key, table = new_key(options.new_key)
        print(f"The key, which nobody can show again: {key}\nFor the file of --keys:\n\n{table}", end="")
        return
    if not options.models:
        parser.error("name a model folder")
    for package in ("starlette", "uvicorn", "msgspec", "prometheus_client", "python_multipart"):
        need(package, "serve", "seg-serve")
    if not 0 <= options.port < 65536:
        raise SegError(f"--port {options.port}: choose a port from 0 to 65535.")
    from fairseq_seg.serve.server import Options, serve

    settings: dict[str, Any] = read_options(rest)
    names = ("memory", "host", "port", "keys", "queue", "timeout")
    chosen = {name: getattr(options, name) for name in names}
    serve(options.models, Options(**chosen, allow_hosts=options.allow_host, rate=options.rate or 0), **settings)


if __name__ == "__main__":
    main()
