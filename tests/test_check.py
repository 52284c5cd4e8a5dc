"""Checks after the search: which means repair a translation, and what is flagged."""

import re

import torch

from fairseq_seg import Translator
from fairseq_seg.corpus.notation import notation_of
from fairseq_seg.tasks.check import FLAG, OutputCheck, feasible, pairs_of
from tests.guessing import LINES
from tests.stock import PLUGIN, hypotheses, run_process, run_stock
from tests.tiny import PAIRS, ROWS, SENTENCES, make_batch, make_model, make_pairs

# ------------------------------------------------------------------------------------------------------ order of means


class Spelled:
    """Texts whose tokens are indices of a list."""

    def __init__(self, sources: list[str], targets: list[str]):
        self._sources, self._targets = sources, targets

    def source(self, row: int) -> str:
        return self._sources[row]

    def target(self, row: int, tokens: torch.Tensor) -> str:
        return self._targets[int(tokens)]

    def encode(self, row: int, text: str) -> torch.Tensor | None:
        return None if text == "{x}" else torch.tensor([len(text)])


TEXTS = Spelled(
    ["a %s", "b 12", "c {x}", "d <b>", "e 1,5", "no token"],
    ["a %s", "a", "b 12", "b 13", "b", "c", "c {x}", "d", "e", "no"],
)


def beam(*numbers: int) -> list[dict]:
    return [{"tokens": torch.tensor(number)} for number in numbers]


def test_means_are_tried_in_order():
    check = OutputCheck((notation_of("en"), notation_of("fr")))
    asked = []

    def again(rows, constraints):
        asked.append((rows, None if constraints is None else [[c.tolist() for c in row] for row in constraints]))
        answers = {1: beam(4), 2: beam(6, 5), 3: beam(7)} if constraints is None else {1: beam(3, 2), 3: beam()}
        return [answers[row] for row in rows]

    beams = [beam(1, 0), beam(3), beam(5), beam(7), beam(8), beam(9)]
    kept = beams[3][0]
    check([0, 1, 2, 3, 5], beams, TEXTS, 100, again)  # the row 4 is an exact match, for example
    # The constraint of row 2 cannot be written, so it goes on to the search without memory.
    assert asked == [([1, 3], [[[2]], [[3]]]), ([2, 3], None)]
    assert [int(beam[0]["tokens"]) for beam in beams] == [0, 2, 6, 7, 8, 9]
    assert [len(beam) for beam in beams] == [2, 2, 2, 1, 1, 1]
    assert beams[3][0] is kept and [fault.kind for fault in kept[FLAG]] == ["lost tag"]
    assert not any(FLAG in beam[0] for place, beam in enumerate(beams) if place != 3)
    counts = {"checked": 5, "n-best": 1, "constrained search": 1, "without memory": 1, "flagged": 1}
    assert dict(check.counts) == counts


def test_numbers_are_constraints_in_the_targets_notation():
    class Encoded(Spelled):
        def encode(self, row, text):
            written.append(text)

    written: list[str] = []
    check = OutputCheck((notation_of("en"), notation_of("de")))
    texts = Encoded(["1,234 of %s"], ["1,234 von"])
    check([0], [beam(0)], texts, 100, lambda rows, _: [beam(0) for _ in rows])
    assert sorted(written) == ["%s", "1.234"]


def test_nothing_is_asked_if_all_is_right():
    check = OutputCheck((notation_of("en"), notation_of("fr")))
    beams = [beam(0), beam(2)]
    check([0, 1], beams, TEXTS, 100, None)
    assert check.counts["checked"] == 2 and check.counts["flagged"] == 0


def test_too_many_constraints_are_none():
    some = [torch.zeros(4), None, torch.zeros(5)]
    assert len(feasible(some, 20)) == 2
    assert feasible(some, 18) == [] and feasible([torch.zeros(61)], 1000) == []


def test_the_pairs_of_some_sentences_give_the_same_output():
    model = make_model(memory_keys="context-state", memory_overlap=True)
    batch = make_batch(SENTENCES, PAIRS, ROWS)
    whole = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
    rows = [3, 0]
    chosen = {name: x[rows] for name, x in batch["net_input"].items() if torch.is_tensor(x)}
    part = model(**chosen, pairs=pairs_of(batch["net_input"]["pairs"], rows))
    torch.testing.assert_close(model.get_normalized_probs(part, log_probs=True), whole[rows])
    cached = make_pairs(PAIRS, ROWS, cached=True).collate(ROWS, [source for source, _ in SENTENCES])
    assert pairs_of(cached, [3, 1])["places"] == [cached["places"][3], cached["places"][1]]


# ------------------------------------------------------------------------------------------------- a model that guesses


def tokens_of(text: str) -> list[str]:
    return sorted(re.findall(r"%s|\d+|</?b>|\{name\}", text))


def test_constrained_search_writes_what_is_missing(guessing):
    data, options = guessing
    stock = hypotheses(run_stock("generate", data, *PLUGIN, *options))
    output = hypotheses(run_stock("generate", data, *PLUGIN, *options, "--memory-check", "on"))
    [typed, expected] = (
        hypotheses(run_stock(command, data, *PLUGIN, *options, "--memory-check", check, stdin=LINES[0][0] + "\n"))
        for command, check in (("interactive", "on"), ("generate", "off"))
    )
    assert expected == stock  # auto is off without protected tokens
    wanted = {row: tokens_of(source) for row, (source, _) in enumerate(LINES)}
    assert {row: tokens_of(texts[0]) for row, texts in stock.items()} != wanted
    assert {row: tokens_of(texts[0]) for row, texts in output.items()} == wanted
    assert typed[0] == output[0]


def test_a_command_logs_the_counts(guessing):
    data, options = guessing
    output = run_process("generate", data, *PLUGIN, *options, "--memory-check", "on")
    found = re.search(r"check: 4 checked translations?, .*", output) or re.search(r"check: (.*)", output)
    assert found and "4 checked" in found[0] and "by constrained search" in found[0] and "0 flagged" in found[0]


def test_translator_flags_what_nobody_can_repair(guessing):
    data, options = guessing
    source = "%s " * 30  # more than a translation of 25 symbols holds
    with Translator(data, checkpoint=options[1], arguments=options[2:], memory_check="on") as translator:
        bad, good, unknown = translator.translate([source, "save the file", "save {other} file"])
    assert "check" in bad.flags and "check" not in good.flags
    assert "check" not in unknown.flags  # a symbol that is not in the dictionary is not a tag


def test_sampling_is_checked_without_constraints(guessing):
    data, options = guessing
    output = run_stock("generate", data, *PLUGIN, *options, "--memory-check", "on", "--sampling", "--nbest", 5)
    assert len(hypotheses(output)) == 4
