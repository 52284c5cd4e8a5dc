"""The plugin's options of fairseq's commands, as tables in Markdown.

`fairseq-train --help` does not list them: it prints its help before it knows the task.
"""

from dataclasses import Field, fields
from enum import Enum
from pathlib import Path

from fairseq_seg.errors import SegError

BEGIN, END = "<!-- begin: python -m fairseq_seg options --update FILE -->\n", "<!-- end -->\n"
PLACEHOLDERS = {int: " N", float: " X", str: " TEXT", bool: ""}


def own_fields(dataclass: type, others: type | None) -> list[Field]:
    """Return the options of a dataclass that fairseq's own dataclasses, and another one, do not have."""
    fairseq = [parent for parent in dataclass.__mro__ if parent.__module__.startswith("fairseq.")]
    fairseq += [] if others is None else [others]
    theirs = {name for parent in fairseq for name in parent.__dataclass_fields__}  # type: ignore[attr-defined]
    return [field for field in fields(dataclass) if field.name not in theirs and "help" in field.metadata]


def shown(default: object, about: str) -> str:
    """Return a default value as text, which the option's help `about` may tell."""
    if default is None:
        return "by preset" if "--preset" in about else "see right"
    return "off" if default is False else f"`{default}`" if default != "" else "none"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def options_of(dataclass: type, smaller: type | None = None, without: type | None = None) -> str:
    """Return the table of a dataclass's options, with the defaults of a second one where these differ.

    The options that the class `without` has are left out.
    """
    from fairseq.dataclass.utils import interpret_dc_type

    from fairseq_seg.tasks.presets import spelled

    rows = []
    for field in own_fields(dataclass, without):
        kind = interpret_dc_type(field.type)
        values = f" {'|'.join(choice.value for choice in kind)}" if issubclass(kind, Enum) else PLACEHOLDERS[kind]
        if "argparse_const" in field.metadata:  # with no value, it is True
            values = " [True|False]"
        default = shown(field.default, field.metadata["help"])
        if smaller is not None and (other := getattr(smaller, field.name)) != field.default:
            default += f"; {shown(other, '')}"
        rows.append([f"`{spelled(field.name)}{values}`", default, field.metadata["help"]])
    return table(["option", "default", "what it does"], rows)


TRANSFORMER = """The options of the memory are those of `seg_gru` above, from `--fusion` to `--detach-memory`. fairseq's
options of `transformer` apply as well, but not those for adaptive softmax, merged embeddings, models without
cross-attention, pruned layers and xformers. Their defaults are fairseq's.
"""


def small_sizes(dataclass: type, smaller: type) -> str:
    """Return a sentence that tells the defaults of a second dataclass where these differ."""
    from fairseq_seg.tasks.presets import spelled

    changed = [
        f"`{spelled(f.name)} {getattr(smaller, f.name)}`"
        for f in fields(dataclass)
        if getattr(smaller, f.name) != f.default
    ]
    return f"`seg_transformer_small` has instead {', '.join(changed)}.\n\n"


def describe() -> str:
    """Return the presets and every option of the task, the models and the criterion."""
    from fairseq_seg.criterions.seg_cross_entropy import SegCrossEntropyConfig
    from fairseq_seg.models.seg_gru import SegGRUConfig, SegGRUSmallConfig
    from fairseq_seg.models.seg_transformer import SegTransformerConfig, SegTransformerSmallConfig, TransformerOptions
    from fairseq_seg.tasks.presets import PRESETS, spelled
    from fairseq_seg.tasks.seg_translation import SegTranslationConfig

    names = next(iter(PRESETS.values()))
    presets = [[f"`{spelled(name)}`", *(f"`{values[name]}`" for values in PRESETS.values())] for name in names]
    parts = {
        "Presets": table(["option", *(f"`--preset {name}`" for name in PRESETS)], presets),
        "Task `seg_translation`": "fairseq's options of `translation` apply as well.\n\n"
        + options_of(SegTranslationConfig),
        "Models `seg_gru` and `seg_gru_small`": "The second of two defaults is that of `seg_gru_small`.\n\n"
        + options_of(SegGRUConfig, SegGRUSmallConfig),
        "Models `seg_transformer` and `seg_transformer_small`": TRANSFORMER
        + small_sizes(SegTransformerConfig, SegTransformerSmallConfig)
        + options_of(SegTransformerConfig, SegTransformerSmallConfig, without=TransformerOptions),
        "Criterion `seg_cross_entropy`": options_of(SegCrossEntropyConfig),
    }
    return "\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


def update(page: Path) -> None:
    """Replace the generated part of a page."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SegError(f"{page} has no part between {BEGIN.strip()} and {END.strip()}: add these two lines.")
    page.write_text(f"{before}{BEGIN}\n{describe()}\n{END}{after}", encoding="utf-8")
