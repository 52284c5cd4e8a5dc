"""The error that speaks to the user, and how a command line says it."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class SegError(Exception):
    """Bad input, described in one sentence: what is wrong, where, and what to do next."""


def command(prog: str, stopped: str = "stopped.") -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Make a `main` function end bad input, a missing file or Ctrl-C with one sentence, not with a traceback."""

    def decorate(main: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(main)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                main(*args, **kwargs)
            except SegError as error:
                sys.exit(str(error))
            except BrokenPipeError:  # the reader, `head` for example, has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            except OSError as error:
                sys.exit(f"{prog}: {error.filename or 'a file'} cannot be read or written: {error.strerror}.")
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
                sys.exit(str(error))
            raise

    # fairseq asks a method for the names of its arguments, and does not look behind a decorator.
    wrapper.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return wrapper


def is_fairseq_command() -> bool:
    """Tell whether this process runs `fairseq-train` or another of fairseq's command lines."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    started = os.path.basename(sys.argv[0]) if sys.argv else ""
    return started.startswith("fairseq-") or (spec is not None and spec.name.startswith("fairseq_cli"))
