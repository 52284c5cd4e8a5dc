"""A server that is killed loses no suggestion that it acknowledged; KILLS=100 in the environment makes sure."""

import os
import signal
import threading
from pathlib import Path

from fairseq_seg.store.store import TranslationMemory
from tests.memories import pairs
from tests.served import Server

KILLS, WRITERS = int(os.environ.get("KILLS", 5)), 4


def test_no_acknowledged_suggestion_is_lost(served_model: Path, tmp_path: Path):
    acknowledged: set[tuple[str, str]] = set()
    for turn in range(KILLS):
        with Server(served_model, "--memory", tmp_path / "own.mem") as server:
            enough = threading.Event()

            def write(name: int, turn: int = turn, server: Server = server, enough: threading.Event = enough) -> None:
                for number in range(10_000):
                    pair = f"the Name{name} of {turn} {number}", f"le {name} {turn} {number}"
                    body = {"q": pair[0], "s": pair[1], "source": "en", "target": "fr"}
                    try:
                        if server.request("POST", "suggest", body)[0] != 200:
                            return
                    except OSError:  # killed
                        return
                    acknowledged.add(pair)
                    if number == 10 + turn % 5:
                        enough.set()

            writers = [threading.Thread(target=write, args=(name,)) for name in range(WRITERS)]
            for writer in writers:
                writer.start()
            assert enough.wait(60)
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            for writer in writers:
                writer.join()
        with TranslationMemory(tmp_path / "own.mem", read_only=True) as memory:
            assert acknowledged <= set(pairs(memory))
    assert len(acknowledged) >= KILLS * 10
