"""Two processes train to the parameters of one with twice the batches, also where one of them has no memory at all."""

import copy
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from fairseq_seg.checkpoints import load_state
from fairseq_seg.corpus.attached import AttachedPairs
from fairseq_seg.corpus.selection import Selection
from tests.attached_corpus import PLUGIN, prepare
from tests.corpus import make_corpus
from tests.stock import DECODING, MODEL, TRAINING, hypotheses, run_stock, train_two_processes
from tests.tiny import OPTIONS, make_batch, make_criterion, make_model, random_pairs

SENTENCES, PAIRS = random_pairs(1, 8), random_pairs(2, 6)
RATE = 1.0


def batches_of(rank: int, update: int, rows: list[list[list[int]]]) -> dict:
    """Return the batch that a rank takes in an update; both ranks have memories in the second update only."""
    mine = SENTENCES[4 * rank : 4 * rank + 4]
    return make_batch(mine, PAIRS, rows[rank if update == 0 else 0])


ROWS = [[[0, 1], [2], [], [3, 0]], [[], [], [], []]]


def train_rank(rank: int, options: list[dict], port_file: str, results: str) -> None:
    """Train a model of each option in torch's own DistributedDataParallel and save the parameters."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{port_file}", rank=rank, world_size=2)
    states = []
    for option in options:
        model = make_model(**option).train()
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for update in range(2):
            optimizer.zero_grad()
            # DistributedDataParallel averages the ranks' gradients; one process sums them.
            loss, _, _ = make_criterion()(wrapped, batches_of(rank, update, ROWS))
            (2 * loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        states.append(copy.deepcopy(model.state_dict()))
    torch.save(states, f"{results}.{rank}")
    dist.destroy_process_group()


def train_alone(option: dict) -> dict:
    model = make_model(**option).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for update in range(2):
        optimizer.zero_grad()
        for rank in range(2):
            make_criterion()(model, batches_of(rank, update, ROWS))[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.state_dict()


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict]]:
    """The parameters of every option, by rank."""
    folder: Path = tmp_path_factory.mktemp("two")
    arguments = (OPTIONS, str(folder / "meeting"), str(folder / "result"))
    multiprocessing.spawn(train_rank, arguments, nprocs=2)
    return [torch.load(folder / f"result.{rank}", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("index", range(len(OPTIONS)), ids=["-".join(map(str, o.values())) for o in OPTIONS])
def test_two_processes_equal_one(two_processes, index: int):
    left, right = (states[index] for states in two_processes)
    expected = train_alone(OPTIONS[index])
    initial = make_model(**OPTIONS[index]).state_dict()
    for name, value in expected.items():
        assert torch.equal(left[name], right[name]), name
        torch.testing.assert_close(left[name], value, rtol=0, atol=1e-4, msg=lambda m, n=name: n + m)
    assert any((expected[name] - initial[name]).abs().max() > 1e-3 for name in expected if "memory" in name)


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data-bin in which the shortest sentences find no pair that is similar enough."""
    return prepare(make_corpus(seed=1, groups=60, held_out=10), tmp_path_factory.mktemp("attached"))


MIN_SCORE = 0.88  # one word of nine may differ, not one of eight
SIZES = {
    "seg_gru_small": ["--hidden-size", 16, "--embed-dim", 16],
    "seg_transformer_small": ["--encoder-embed-dim", 16, "--encoder-layers", 1, "--decoder-layers", 2],
}
OPTIONS_OF_TRAINING = [*PLUGIN, *TRAINING[len(MODEL) :], "--gate-hidden", 16, "--dropout", 0, "--memory-k", 2]
OPTIONS_OF_TRAINING += ["--memory-min-score", MIN_SCORE, "--batch-size", 2, "--max-update", 30, "--disable-validation"]


@pytest.mark.parametrize("arch", ["seg_gru_small", "seg_transformer_small"])
def test_stock_training_as_two_processes_equals_one(attached: Path, arch: str, tmp_path: Path):
    selected = AttachedPairs.load(attached / "train.en-fr.memory").select(Selection(2, min_score=MIN_SCORE))
    empty = (selected.counts == 0).mean()
    assert 0.1 < empty < 0.5  # sentences of one length stand together: these batches have no memory at all
    options = [*OPTIONS_OF_TRAINING, "--arch", arch, *SIZES[arch]]
    run_stock("train", attached, *options, "--update-freq", 2, "--save-dir", tmp_path / "one")
    train_two_processes(attached, *options, "--save-dir", tmp_path / "two")
    one, two = (load_state(tmp_path / run / "checkpoint_last.pt")["model"] for run in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-4, msg=lambda m, n=name: n + m)
    assert one["decoder.memory.coverage_penalty"] != 0
    # and what was trained with two pairs decodes with none, one, or many
    for k in (0, 1, 16):
        options = ["--path", tmp_path / "one" / "checkpoint_last.pt", "--memory-k", k, "--cpu", "--beam", 2, *DECODING]
        assert len(hypotheses(run_stock("generate", attached, *PLUGIN, *options))) == 10


FAULTY = """
import torch.distributed as dist
from fairseq.criterions import register_criterion
from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropy, SegCrossEntropyConfig
from fairseq_seg.models import seg_gru

@register_criterion("faulty", dataclass=SegCrossEntropyConfig)
class Faulty(SegCrossEntropy):
    def forward(self, model, sample, reduce=True):
        loss, *rest = super().forward(model, sample, reduce)
        return (loss * float("nan") if dist.get_rank() == 1 and model.training is {training} else loss), *rest
"""


@pytest.mark.parametrize("training", [True, False], ids=["training", "validation"])
def test_nan_on_one_rank_stops_all(data_bin: Path, tmp_path: Path, training: bool):
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty/__init__.py").write_text(FAULTY.format(training=training))
    options = ["--user-dir", tmp_path / "faulty", "--task", "seg_translation", "--memory-k", 0, *TRAINING]
    options += ["--criterion", "faulty", "--max-update", 1, "--no-save", "--validate-interval-updates", 1]
    outputs = train_two_processes(data_bin, *options, expected=1)
    assert "NaN in the batch of another process: its message says which." in outputs[0]
    assert "NaN in the batch [" in outputs[1]
    assert all(output.count("NaN in the batch") == 1 and "Traceback" not in output for output in outputs)
