"""The error that speaks to the user, and how a command line says it."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Control characters, line and paragraph separators, bidirectional embeddings, overrides and isolates, surrogates.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class SegError(Exception):
    """Bad input, described in one sentence: what is wrong, where, and what to do next."""


def need(package: str, extra: str, purpose: str) -> None:
    """Refuse to start work that needs an optional package, one of an extra of this project, if that is missing."""
    if find_spec(package) is None:
        raise SegError(f"{purpose} needs {package}: run pip install 'fairseq-seg[{extra}]'.")


def command(prog: str, stopped: str = "stopped.") -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a `main` function end bad input, a missing file or Ctrl-C with one sentence, not with a traceback."""

    def decorate(main: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(main)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
            os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported; see `one_thread`
            try:
                if (args[0] if args and args[0] is not None else sys.argv[1:]) == ["--version"]:
                    print(f"{prog} {version('fairseq-seg')}")
                else:
                    main(*args, **kwargs)
            except SegError as error:
                sys.exit(visible(str(error)))
            except BrokenPipeError:  # the reader, `head` for example, has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            except OSError as error:
                file = visible(str(error.filename or "a file"))
                sys.exit(f"{prog}: {file} cannot be read or written: {error.strerror}.")
            except UnicodeDecodeError:  # of standard input; files are read with their names
                sys.exit(f"{prog}: standard input is not UTF-8 text: convert it first.")
            except KeyboardInterrupt:
                sys.exit(f"{prog}: {stopped}")

        return wrapper

    return decorate


def hook(method: Callable[P, R]) -> Callable[P, R]:
    """Make a method that fairseq calls exit with the sentence of a `SegError`, if fairseq's command line is running.

    Called from Python, where somebody may want to catch it, the method raises the `SegError` itself.
    """

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except SegError as error:
            if is_fairseq_command():
                sys.exit(visible(str(error)))
            raise

    # fairseq asks a method for the names of its arguments, and does not look behind a decorator.
    wrapper.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return wrapper


def visible(text: str) -> str:
    """Return a text that is safe on a terminal: what could steer it, or turn text around, is replaced."""
    return STEERING.sub("\ufffd", text)


def is_fairseq_command() -> bool:
    """Tell whether this process runs `fairseq-train` or another of fairseq's command lines."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    started = os.path.basename(sys.argv[0]) if sys.argv else ""
    return started.startswith("fairseq-") or (spec is not None and spec.name.startswith("fairseq_cli"))
