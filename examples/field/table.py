"""Print the table of the field: quality from the recipe's report, and what each method costs.

    python examples/field/table.py examples/field/recipe.toml OUTPUT en-fr

Costs: sentences per second, as fairseq-generate logged them (one run, one thread: compare them with each other only);
the seconds until 1,000 new pairs are used; bytes per pair of what is kept beside the model. The costs of a memory are
measured now and kept in OUTPUT/en-fr/costs.json, those of kNN-MT were measured when its datastore was made.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from fairseq_seg.errors import SegError, command
from fairseq_seg.evaluate.split import load_split
from fairseq_seg.evaluate.table import show, show_p
from fairseq_seg.files import read_text_file, write_whole
from fairseq_seg.recipes.recipe import Recipe, System, pair_of, read_recipe
from fairseq_seg.recipes.steps import run_folder
from fairseq_seg.store.index import MemorySearch
from fairseq_seg.store.pair import TranslationUnit
from fairseq_seg.store.store import TranslationMemory

ADDED = 1000
NEW_PAIRS, BYTES = "seconds per 1,000 pairs", "bytes per pair"


def memory_costs(shared: Path, text: Path, source: str, target: str) -> dict[str, float]:
    """Fill a memory with the training set but for its last pairs, then measure how long these take to be found."""
    sides = [read_text_file(text / f"train.{language}") for language in (source, target)]
    pairs = [TranslationUnit(*pair) for pair in zip(*sides, strict=True)]
    added = min(ADDED, len(pairs) // 2)
    with TemporaryDirectory() as folder:
        path = Path(folder, "costs.mem")
        models = [shared / f"subword.{language}.model" for language in (source, target)]
        with TranslationMemory.create(path, source, target, shared / "data-bin", *models) as memory:
            memory.add_many(pairs[:-added])
            search = MemorySearch(path)
            query = search.encode(pairs[-1].source)
            search.search([query], 1)
            began = time.perf_counter()
            memory.add_many(pairs[-added:])
            search.search([query], 1)
            seconds = time.perf_counter() - began
            search.close()
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            return {NEW_PAIRS: 1000 * seconds / added, BYTES: size / len(memory)}


def kept_costs(own: Path, shared: Path, text: Path, source: str, target: str) -> dict[str, float]:
    """Return a memory's costs, measured once."""
    path = own / "costs.json"
    if not path.exists():
        costs = memory_costs(shared, text, source, target)
        with write_whole(path) as stream:
            stream.write(json.dumps(costs).encode())
    return json.loads(path.read_text(encoding="utf-8"))


def cost_cells(system: System | None, run: Path, memory: dict[str, float]) -> list[str]:
    """Return the seconds for new pairs and the bytes per pair; `run` is what the system translates with."""
    costs: dict[str, float] = memory
    if system is not None and "--knn-store" in system.translate:
        costs = json.loads((run / "knn/datastore.json").read_text(encoding="utf-8"))
    elif system is not None and not (system.translate or system.is_guided):
        return ["–", "0"]  # it cannot use new pairs, but by more training
    return [show(costs[NEW_PAIRS], 2), f"{costs[BYTES]:,.0f}"]


def table(recipe: Recipe, output: Path, direction: str) -> str:
    """Return the table in Markdown."""
    source, target = direction.split("-")
    own, shared = output / direction, output / "data" / pair_of(direction, recipe.pairs)
    try:
        report = json.loads((own / "report.json").read_text(encoding="utf-8"))
    except OSError:
        raise SegError(
            f"{own} has no report.json: run examples/recipe.py with this recipe and --output first."
        ) from None
    text = Path(report["references"]).parent
    memory = kept_costs(own, shared, text, source, target)
    effort = {quality["name"]: quality["ter"] for quality in report.get("quality", [])}
    heads = ["system", "BLEU", f"p against {report['baseline']}", "chrF", "TER", "sentences/s", NEW_PAIRS, BYTES]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    speeds = {row["name"]: row["speed"] for row in report["systems"]}
    for row in report["systems"]:
        name = row["name"]
        system = recipe.systems.get(name)  # TM is not one of the recipe's
        trained = name if system is None or not system.trained_as else system.trained_as
        speed = row["speed"]
        threshold = run_folder(own, name, 1) / "threshold.json"
        if speed is None and threshold.exists() and speeds.get(trained):
            best = load_split(shared / "data-bin", report["split"], source, target).best
            translated = float((best < json.loads(threshold.read_text(encoding="utf-8"))["threshold"]).mean())
            speed = speeds[trained] / translated if translated else None
        quality = [row["bleu"], row["chrf"]]
        bleu, chrf = (show(sum(runs) / len(runs)) for runs in quality)
        run = run_folder(own, trained, 1)
        cells = [bleu, show_p(row["p_value"]), chrf, show(effort.get(name)), show(speed)]
        lines.append([name, *cells, *cost_cells(system, run, memory)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@command("table.py")
def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, metavar="RECIPE.toml", help="examples/field/recipe.toml, or a copy")
    parser.add_argument("output", type=Path, metavar="FOLDER", help="the --output of the recipe")
    parser.add_argument("direction", metavar="EN-FR", help="a direction that has a report")
    args = parser.parse_args()
    print(table(read_recipe(args.recipe), args.output, args.direction))


if __name__ == "__main__":
    main()
