"""Explanations as lines for a terminal, or for a file or pipe, with brackets instead of colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_seg.errors import visible

if TYPE_CHECKING:
    from fairseq_seg.explain.records import Explanation, Token

# The xterm colours of the gate's five levels, from none to strong, each with a readable text colour.
SHADES = ["", "48;5;195;38;5;16", "48;5;153;38;5;16", "48;5;111;38;5;16", "48;5;26;38;5;231"]
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _paint(text: str, gate: float, copied: bool) -> str:
    codes = ";".join(code for code in ("4" if copied else "", SHADES[round(gate * (len(SHADES) - 1))]) if code)
    return f"\033[{codes}m{text}\033[0m" if codes else text


def _word(word: Token, colour: bool) -> str:
    text, slot = visible(word.text), word.copied_from
    rank = "" if slot is None else str(slot.pair + 1).translate(SUPERSCRIPT)
    if colour:
        return _paint(text, word.gate, slot is not None) + rank
    return text if slot is None else f"[{text}]{rank}"


def _retrieved_target(explanation: Explanation, rank: int, colour: bool) -> str:
    words, copies = [], explanation.copies(rank)
    for position, text in enumerate(map(visible, explanation.pairs[rank].target_words)):
        if position in copies:
            gate = max(explanation.words[index].gate for index in copies[position])
            text = _paint(text, gate, True) if colour else f"[{text}]"
        words.append(text)
    return " ".join(words)


def legend(colour: bool) -> str:
    """Explain the marks."""
    if not colour:
        return "[word]¹: copied rather than generated, from pair 1"
    ramp = " ".join(_paint(f" {step / (len(SHADES) - 1):.2f} ", step / (len(SHADES) - 1), False) for step in range(5))
    return f"gate {ramp}   {_paint('word', 0, True)}¹: copied rather than generated, from pair 1"


def render(explanation: Explanation, colour: bool) -> str:
    """Show a sentence: (S) source, (RS, RT) retrieved pairs, (A) our translation, (B) baseline, (T) reference."""
    rows = [("S", visible(explanation.source))]
    for rank, pair in enumerate(explanation.pairs):
        rows.append(("", f"pair {rank + 1}: {visible(pair.origin)}, score {pair.score:.2f}"))
        rows.append((f"RS{rank + 1}", visible(pair.source)))
        rows.append((f"RT{rank + 1}", _retrieved_target(explanation, rank, colour)))
    rows.append(("A", " ".join(_word(word, colour) for word in explanation.words)))
    if explanation.pairs and explanation.note:
        rows.append(("", explanation.note))
    if explanation.baseline is not None:
        rows.append(("B", f"{visible(explanation.baseline.translation)}   ({visible(explanation.baseline.system)})"))
    if explanation.reference is not None:
        rows.append(("T", visible(explanation.reference)))
    return "".join(f"{label:<5}{text}\n" for label, text in rows)
