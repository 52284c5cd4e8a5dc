"""Time of a training update with all threads, over that with one: on the machine as it is, and with every core busy.

While torch's threads (OpenMP) wait for each other they spin, which takes the core from whoever they wait for. To see
that this is the cause, run it with OMP_WAIT_POLICY=passive, which lets them sleep.
"""

import multiprocessing
import os
import time

from rounds import interleave, ratios, spread, write_json
from translator import parser, random_batch, seg_model, start, task, trainer, vocabulary


def spin() -> None:
    """Keep a core busy."""
    while True:
        pass


def main() -> None:
    """Run the command line."""
    sizes = parser(__doc__.splitlines()[0], rounds=3).parse_args()
    start(sizes)
    import torch

    from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropy

    dictionary, cores = vocabulary(sizes.symbols), len(os.sched_getaffinity(0))
    criterion = SegCrossEntropy(task(dictionary), sentence_avg=False, label_smoothing=0.0)
    update = trainer(seg_model(sizes, dictionary), criterion, random_batch(sizes, dictionary))

    def with_threads(count: int) -> None:
        torch.set_num_threads(count)
        update()

    jobs = {"all": lambda: with_threads(cores), "one": lambda: with_threads(1)}
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(cores)]
    compared = {}
    print(f"{cores} cores, load average before {os.getloadavg()[0]:.1f}\n")
    print("| machine | all threads / one thread |\n|---|---|")
    for name, company in (("as it is", []), ("every core busy", others)):
        for process in company:
            process.start()
        seconds = interleave(jobs, sizes.rounds, clock=time.perf_counter)
        line = f"training with all threads, {name}, times one thread"
        compared[line] = ratios(seconds["all"], seconds["one"])
        print(f"| {name} | {spread(compared[line])} |", flush=True)
    for process in others:
        process.terminate()
    write_json(sizes.json, {"ratios": compared})


if __name__ == "__main__":
    main()
