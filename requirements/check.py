"""Say in one sentence what a machine lacks for the set-up; silent where nothing is missing.

Kept to syntax that old Pythons understand, so that every Python 3 gets the sentence and not a SyntaxError.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig

INCLUDE = sysconfig.get_paths()["include"]


def missing(version=sys.version_info, path=None, include=INCLUDE):
    """Return the first thing that is missing as a sentence, or None.

    `version`, `path` (the search path for compilers) and `include` (the folder of Python.h) are those of the running
    interpreter unless told otherwise.
    """
    if tuple(version[:2]) < (3, 11):
        found = "%d.%d" % (version[0], version[1])
        return "Python 3.11 or newer is needed, this is %s: install one and name it, e.g. PYTHON=python3.11." % found
    if importlib.util.find_spec("ensurepip") is None:
        return "This Python cannot make virtual environments: install its venv module (Debian: python3-venv)."
    if importlib.util.find_spec("fairseq") is not None:
        return None  # What follows is needed only to compile fairseq.
    if not (shutil.which("gcc", path=path) or shutil.which("cc", path=path)):
        return "No C compiler was found, and fairseq has to be compiled: install gcc (Debian: build-essential)."
    if not (shutil.which("g++", path=path) or shutil.which("c++", path=path)):
        return "No C++ compiler was found, and fairseq has to be compiled: install g++ (Debian: build-essential)."
    if not os.path.exists(os.path.join(include, "Python.h")):
        return "Python.h was not found in %s: install Python's headers (Debian: python3-dev)." % include
    return None


if __name__ == "__main__":
    sys.exit(missing())
