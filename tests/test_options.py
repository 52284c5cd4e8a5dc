"""What the command lines share: whole numbers above zero, and a help text that shows defaults."""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_seg.cli import evaluate
from fairseq_seg.cli.options import DefaultsFormatter, positive
from preprocess import stats
from tests.stock import ROOT

COMMANDS = re.findall(r"(seg-\w+) = ([\w.]+):main", (ROOT / "setup.py").read_text())
OURS = {"seg-subword", "seg-attach", "seg-stats", "seg-average", "seg-memory"}


def test_positive():
    assert [positive(text) for text in ("1", "007", "99999999999")] == [1, 7, 99999999999]
    for text in ("0", "-1", "1.5", "x", "", "²", "1e3"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{re.escape(text)}' is not a whole number above zero"):
            positive(text)


def test_help_shows_defaults_that_say_something():
    parser = argparse.ArgumentParser(formatter_class=DefaultsFormatter)
    for name, options in {
        "nothing": {},
        "flag": {"action": "store_true"},
        "text": {"default": ""},
        "several": {"default": [], "action": "append"},
        "zero": {"default": 0.0},
        "number": {"default": 16},
    }.items():
        parser.add_argument(f"--{name}", help=f"the {name}", **options)
    shown = re.findall(r"the (\w+) \(default: (\S+)\)", parser.format_help())
    assert shown == [("zero", "0.0"), ("number", "16")]


@pytest.mark.parametrize(("name", "module"), [pair for pair in COMMANDS if pair[0] in OURS])
def test_every_command_describes_itself(name: str, module: str):
    command = importlib.import_module(module.replace("fairseq_seg_preprocess", "preprocess"))
    parser = command.get_parser()
    assert parser.prog == name and callable(command.main)
    parsers = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers += action.choices.values()
    for each in parsers:
        help_text = each.format_help()
        assert "default: None" not in help_text and "default: False" not in help_text


@pytest.mark.parametrize(
    "module", ["preprocess.stats", "preprocess.subword", "preprocess.attach", "fairseq_seg.cli.memory"]
)
def test_help_answers_at_once(module: str):
    command = [sys.executable, "-X", "importtime", "-m", module, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "usage: seg-" in done.stdout
    for heavy in ("torch", "fairseq.", "jnius", "pandas", "numpy", "sacrebleu"):
        assert not re.search(rf"\| +{re.escape(heavy)}", done.stderr), heavy


def run_module(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "fairseq_seg", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_page_of_options_is_up_to_date(tmp_path: Path):
    page = (ROOT / "docs/options.md").read_text()
    (tmp_path / "page.md").write_text(page)
    assert run_module("options", "--update", tmp_path / "page.md").returncode == 0
    advice = "run: python -m fairseq_seg options --update docs/options.md"
    assert (tmp_path / "page.md").read_text() == page, advice
    listed = run_module("options").stdout
    assert listed in page and "| `--fusion shallow\\|deep\\|both` | `shallow` | how the memory is used" in listed
    assert "| `--hidden-size N` | `1024`; `256` |" in listed and "| `--memory-min-score X` | `0.0` |" in listed
    (tmp_path / "page.md").write_text("# Options\n")
    done = run_module("options", "--update", tmp_path / "page.md")
    assert done.returncode == 1 and "has no part between" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "page.md").read_text() == "# Options\n"


@pytest.mark.parametrize(("arch", "stock_arch"), [("seg_gru", "lstm"), ("seg_transformer", "transformer")])
def test_every_option_of_the_plugin_is_listed(arch: str, stock_arch: str):
    from fairseq import options

    from fairseq_seg.cli.fairseq_options import describe

    text = describe()  # which also imports the plugin
    arguments = ["data", "--user-dir", str(ROOT / "fairseq_seg"), "--task", "seg_translation", "--arch", arch]
    plugin, stock = options.get_training_parser(), options.get_training_parser()
    options.parse_args_and_arch(plugin, [*arguments, "--criterion", "seg_cross_entropy"])
    options.parse_args_and_arch(stock, ["data", "--task", "translation", "--arch", stock_arch])
    known = {name for action in stock._actions for name in action.option_strings}
    added = {name for action in plugin._actions for name in action.option_strings} - known
    assert "--preset" in added and [name for name in sorted(added) if f"| `{name}" not in text] == []


@pytest.mark.parametrize(
    ("main", "arguments", "package", "extra"),
    [
        (evaluate.main, ["nowhere", "--html", "page.html"], "matplotlib", "evaluate"),
        (evaluate.main, ["nowhere"], "sacremoses", "evaluate"),
        (stats.main, ["nowhere", "--png", "scores.png"], "matplotlib", "plots"),
    ],
)
def test_a_missing_extra_is_named_before_the_work(main, arguments, package, extra, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=rf"needs {package}: run pip install 'fairseq-seg\[{extra}\]'"):
        main(arguments)
