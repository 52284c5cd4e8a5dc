"""The one error that speaks to the user."""


class SegError(SystemExit):
    """Bad input, said in one sentence: what is wrong, where, and what to do next.

    Left alone, it ends a command with that sentence and exit code 1, without a traceback; in Python it can be caught.
    """
