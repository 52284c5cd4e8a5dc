"""Where a training step spends its time: torch's operators, forward and backward, by kind, without and with a memory.

Batches are those of pairs.py: every sentence has K pairs of its own. Times are what torch's profiler counts of each
operator itself, without those that it calls.
"""

from argparse import Namespace

from pairs import update
from rounds import print_table, write_json
from torch.profiler import ProfilerActivity, profile
from translator import parser, start

# An operator belongs to the first kind that has a word which its name contains.
KINDS = {
    "matrix products": "mm",
    "softmax": "softmax logsumexp logaddexp",
    "embeddings, gathering, copies": "copy cat index gather scatter embedding clone fill pad zero",
    "tanh, sigmoid": "tanh sigmoid",
    "sums, norms": "sum norm",
    "additions, products, and Adam's": "adam foreach add mul sub div lerp neg exp reciprocal where rsub",
}
REST = "the rest: views, autograd"


def kind_of(operator: str) -> str:
    """Return the kind of an operator, by its name without `aten::`."""
    name = operator.removeprefix("aten::").lower()
    return next((kind for kind, words in KINDS.items() if any(word in name for word in words.split())), REST)


def measure(sizes: Namespace, k: int) -> dict[str, float]:
    """Measure the milliseconds of each kind in a training step with k pairs per sentence."""
    step = update(sizes, k)
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(sizes.rounds):
            step()
    milliseconds = dict.fromkeys([*KINDS, REST], 0.0)
    for operator in profiler.key_averages():
        milliseconds[kind_of(operator.key)] += operator.self_cpu_time_total / 1000 / sizes.rounds
    return milliseconds


def main() -> None:
    """Run the command line."""
    options = parser(__doc__, rounds=3)
    options.add_argument("--pairs", type=int, nargs="+", default=[0, 1], help="the values of K")
    sizes = options.parse_args()
    start(sizes)
    steps = {k: measure(sizes, k) for k in sizes.pairs}
    rows = []
    for kind in [*KINDS, REST]:
        rows.append([kind, *(f"{step[kind]:.0f} | {step[kind] / sum(step.values()):.1%}" for step in steps.values())])
    rows.append(["all", *(f"{sum(step.values()):.0f} |" for step in steps.values())])
    print_table(f"operators | {' | | '.join(f'K = {k}, ms' for k in steps)} |", rows)
    write_json(sizes.json, {"milliseconds": steps})


if __name__ == "__main__":
    main()
