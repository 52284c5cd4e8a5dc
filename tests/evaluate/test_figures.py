"""What the figures draw."""

from types import SimpleNamespace

import pytest

from fairseq_seg.evaluate import figures
from fairseq_seg.evaluate.figures import DARK, LIGHT, drawings, render
from fairseq_seg.evaluate.outputs import Output, System
from fairseq_seg.evaluate.report import Report
from fairseq_seg.evaluate.scores import score_systems
from fairseq_seg.evaluate.split import Split


def test_figures_with_and_without_empty_bins(split: Split, guesses: list[str]):
    """Sentences without any pair and exact matches have their own places; the same report gives the same file."""
    best = split.best.copy()
    best[:3], best[3:5] = -1, 1
    for scores, places in ((split.best, {b"none": False, b"= 1": False}), (best, {b"none": True, b"= 1": True})):
        given = Split(**(vars(split) | {"best": scores}))
        systems = [System("TM", [Output(split.pair_targets)]), System("NMT", [Output(guesses)])]
        systems.append(System("SEG", [Output(split.references)]))
        report = Report(given, score_systems(given, systems, "NMT"), [], [], [], "")
        drawn = {drawing.name: drawing for drawing in drawings(report)}
        assert drawn.keys() == {"bins-bleu", "bins-gain"}
        for drawing in drawn.values():
            picture = render(drawing, LIGHT, "svg")
            assert picture == render(drawing, LIGHT, "svg") != render(drawing, DARK, "svg")
            # matplotlib notes every text in a comment.
            assert {place: b"<!-- %s -->" % place in picture for place in places} == places
            assert b"<!-- SEG -->" in picture and (b"<!-- TM -->" in picture) == (drawing.name == "bins-bleu")


@pytest.mark.parametrize("tm, drawn", [(54.0, ["TM", "NMT"]), (24.7, ["NMT"])])
def test_a_far_off_system_does_not_flatten_the_curve_over_k(tm, drawn):
    from matplotlib.figure import Figure

    compared = {"TM": SimpleNamespace(name="TM", mean_bleu=tm), "NMT": SimpleNamespace(name="NMT", mean_bleu=48.9)}
    points = [SimpleNamespace(name=str(k), mean_bleu=50.0 + k, bleu_ci=1.0, pairs=k) for k in (1, 2)]
    scores = SimpleNamespace(baseline="NMT", system=compared.get, systems=list(compared.values()))
    figure = Figure()
    figures._draw_sweep(figure, figures.LIGHT, SimpleNamespace(sweep=points, scores=scores))
    assert figure.axes[0].get_legend_handles_labels()[1] == drawn


def test_no_name_is_cut_off_in_the_legend():
    """Six systems' names fill their columns, the last with a name as long as recipes have."""
    from matplotlib.figure import Figure

    names = ["SEG", "SEG adaptive", "SEG state", "SEG state adaptive", "SEG state without memory", "CopyNet adaptive"]
    columns = []
    for shown in (names[:3], names, [f"{name} of the second seed alone" for name in names]):
        figure = Figure(figsize=(figures.WIDTH, figures.HEIGHT), layout="constrained")
        axes = figure.subplots()
        for name in shown:
            axes.plot([0, 1], [0, 1], label=name)
        figures._legend(figure, axes)
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == shown
        assert legend.get_window_extent().width <= figure.bbox.width
        columns.append(legend._ncols)
    assert columns == sorted(columns, reverse=True) and columns[0] == 3 and columns[-1] < 3
