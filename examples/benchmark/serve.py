"""Measure seg-serve: throughput of concurrent clients, latency of one, idle connections, and memory over many requests.

    python examples/benchmark/serve.py MODEL SENTENCES [--clients 16] [--requests 20] [--json FILE]

MODEL is a model folder, SENTENCES a text file in its source language. The server is a process of its own on loopback.
In each round the clients take turns with a single client, and with `Translator` in this process on the same
sentences; times are by the clock, so only ratios within a round mean something.
"""

from __future__ import annotations

import argparse
import http.client
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from rounds import interleave, new_parser, print_table, ratios, spread, write_json

from fairseq_seg import Translator
from fairseq_seg.corpus.model_folder import ModelFolder

SETTINGS = {"beam": 5, "cpu": True}


class Client:
    """A client with one connection that it keeps."""

    def __init__(self, port: int, langs: tuple[str, str]):
        self._connection, self._langs = http.client.HTTPConnection("127.0.0.1", port, timeout=120), langs

    def translate(self, text: str) -> str:
        """Return a translation."""
        body = json.dumps({"q": text, "source": self._langs[0], "target": self._langs[1]})
        try:
            self._connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
        except ConnectionError:  # closed by the server, because it was idle for long: the next request opens another
            self._connection.close()
            return self.translate(text)
        answer = json.loads(response.read())
        if response.status != 200:
            sys.exit(f"The server answered {response.status}: {answer}")
        return answer["translatedText"]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def start_server(model: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a server, and return it with its port when it is ready."""
    command = [sys.executable, "-m", "fairseq_seg.cli.serve", str(model), "--port=0"]
    command += [f"--{name}" if value is True else f"--{name}={value}" for name, value in SETTINGS.items()]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port, other = 0, []
    for line in process.stderr:
        other.append(line)
        event = json.loads(line) if line.startswith("{") else {"event": ""}
        if event["event"] == "listening":
            port = int(event["url"].rstrip("/").rpartition(":")[2])
        if event["event"] == "ready":
            # Its log must not fill the pipe.
            ThreadPoolExecutor(1).submit(lambda: [None for _ in process.stderr or ()])
            return process, port
    sys.exit("".join(other))


def times(function: Callable[[str], object], texts: list[str]) -> list[float]:
    """Return the seconds that each text takes."""
    found = []
    for text in texts:
        began = time.perf_counter()
        function(text)
        found.append(time.perf_counter() - began)
    return found


def resident_megabytes(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process (Linux)."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def get_parser() -> argparse.ArgumentParser:
    """Return the parser."""
    parser = new_parser(__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("sentences", type=Path, metavar="SENTENCES")
    parser.add_argument("--clients", type=int, default=16, help="concurrent clients")
    parser.add_argument("--requests", type=int, default=10, help="requests of each client per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=1000, help="idle connections to hold")
    parser.add_argument("--many", type=int, default=0, help="requests after which to look at the server's memory")
    return parser


def main() -> None:
    """Run the benchmark."""
    options = get_parser().parse_args()
    folder = ModelFolder.load(options.model)
    langs = folder.source_lang, folder.target_lang
    lines = [line.strip() for line in options.sentences.read_text(encoding="utf-8").split("\n") if line.strip()]
    count = options.clients * options.requests
    texts = list(islice((line for _ in range(count) for line in lines), count))
    results: dict = {"ratios": {}, "options": {"clients": options.clients, "requests": options.requests}}
    with ExitStack() as stack:
        process, port = start_server(options.model)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        translator = stack.enter_context(Translator(options.model, memory_exact="copy", **SETTINGS))
        clients = [Client(port, langs) for _ in range(options.clients)]
        for client in clients:
            stack.callback(client.close)
        pool = stack.enter_context(ThreadPoolExecutor(options.clients))

        def concurrent() -> None:
            parts = [texts[start :: options.clients] for start in range(options.clients)]
            list(pool.map(lambda job: times(job[0].translate, job[1]), zip(clients, parts, strict=True)))

        def batches() -> None:
            for start in range(0, len(texts), options.clients):
                translator.translate(texts[start : start + options.clients])

        jobs = {"one client": lambda: times(clients[0].translate, texts), "concurrent": concurrent, "batches": batches}
        seconds = interleave(jobs, options.rounds, time.perf_counter)
        name = f"{options.clients} clients"
        results["ratios"][f"{name}, sentences/s of one client"] = ratios(seconds["one client"], seconds["concurrent"])
        results["ratios"][f"{name}, sentences/s of Translator"] = ratios(seconds["batches"], seconds["concurrent"])
        latency: dict[str, list[float]] = {"server": [], "Translator": []}
        shares = []
        for start in range(0, len(texts), options.requests):
            some = texts[start : start + options.requests]
            served = times(clients[0].translate, some)
            alone = times(lambda text: translator.translate([text]), some)
            latency["server"] += served
            latency["Translator"] += alone
            shares.append(statistics.median(served) / statistics.median(alone))
        results["ratios"]["latency of one sentence, times Translator"] = shares
        results["latency"] = {
            who: {share: sorted(values)[int(share * (len(values) - 1))] for share in (0.5, 0.9, 0.99)}
            for who, values in latency.items()
        }
        results["connections"] = hold(port, options.connections, clients[0], texts[0])
        if options.many:
            results["megabytes"] = grow(options.many, process, concurrent, count)
    rows = [(line, spread(values)) for line, values in results["ratios"].items()]
    print_table("line | median (least to greatest)", rows)
    print(f"\nlatency: {results['latency']}\nidle connections held: {results['connections']}")
    if options.many:
        print(f"resident MB after each {count} requests: {results['megabytes']}")
    write_json(options.json, results)


def hold(port: int, count: int, client: Client, text: str) -> int:
    """Open connections that say nothing, and translate meanwhile; return how many the server holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 100)), hard))
    with ExitStack() as stack:
        idle = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(count)]
        for connection in idle:
            connection.connect()
            stack.callback(connection.close)
        client.translate(text)
        for connection in idle:  # each of them still gets an answer
            connection.request("GET", "/health")
        return sum(connection.getresponse().status == 200 for connection in idle)


def grow(many: int, process: subprocess.Popen[str], job: Callable[[], object], count: int) -> list[float]:
    """Repeat a job, and return the server's memory after each time."""
    found = []
    for _ in range(max(many // count, 2)):
        job()
        found.append(round(resident_megabytes(process), 1))
    return found


if __name__ == "__main__":
    main()
