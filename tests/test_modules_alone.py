"""A tiny SEG-NMT of `fairseq_seg.modules` and numpy data alone trains until it copies, and decodes, without fairseq."""

import subprocess
import sys
from pathlib import Path

PAD, EOS, FIRST_NAME, FIRST_WORD = 1, 2, 4, 24  # 20 names; what follows them are words
SYMBOLS, LENGTH, BATCH = 32, 5, 32


def run() -> None:
    """Train and decode; the translation of a name is in the retrieved pair and nowhere else."""
    import numpy as np
    import torch

    from fairseq_seg.modules.fusion import log_probs, target_log_prob
    from fairseq_seg.modules.gru import GRUDecoder, GRUEncoder, GRUTranslator, embedding
    from fairseq_seg.modules.guided import GuidedTranslator
    from fairseq_seg.modules.keys import ContextStateKeys
    from fairseq_seg.modules.memory import Gate, SlotReader

    torch.set_num_threads(1)
    torch.manual_seed(1)
    rng = np.random.default_rng(1)

    def sentences() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Return sources and targets (B, T), and one retrieved pair each, which differs in one word.

        Words translate to themselves; each sentence has one name, which translates to another name, drawn at random.
        """
        source = rng.integers(FIRST_WORD, SYMBOLS, (BATCH, LENGTH))
        rows, place = np.arange(BATCH), rng.integers(0, LENGTH - 1, BATCH)
        source[:, -1] = EOS
        target = source.copy()
        source[rows, place], target[rows, place] = rng.integers(FIRST_NAME, FIRST_WORD, (2, BATCH))
        pair_source, pair_target = source.copy(), target.copy()
        other = (place + rng.integers(1, LENGTH - 1, BATCH)) % (LENGTH - 1)
        pair_source[rows, other] = pair_target[rows, other] = rng.integers(FIRST_WORD, SYMBOLS, BATCH)
        lengths = torch.full((BATCH,), LENGTH)
        pairs = {
            "src_tokens": torch.from_numpy(pair_source),
            "src_lengths": lengths,
            "prev_output_tokens": torch.from_numpy(np.roll(pair_target, 1, axis=1)),
            "tokens": torch.from_numpy(pair_target),
            "lengths": lengths,
            "slots": torch.arange(BATCH * LENGTH).view(BATCH, LENGTH),
        }
        return torch.from_numpy(source), torch.from_numpy(target), pairs

    embed = embedding(SYMBOLS, 16, PAD)
    output = embedding(SYMBOLS, 16, PAD)
    translator = GRUTranslator(GRUEncoder(embedding(SYMBOLS, 16, PAD), 32), GRUDecoder(embed, output, 32))
    keys = ContextStateKeys(translator, full=False)
    memory = SlotReader(keys, Gate(translator.context_size, translator.state_size, 16, 0.0), coverage_penalty=2.0)
    model = GuidedTranslator(translator, memory, "shallow", PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    lengths = torch.full((BATCH,), LENGTH)
    for _ in range(100):
        source, target, pairs = sentences()
        out = model(source, lengths, target.roll(1, 1), pairs)
        generated = torch.log_softmax(out.logits, -1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        log_p, p_copy = target_log_prob(generated, out.copies, target)
        optimizer.zero_grad()
        loss = -(log_p + (p_copy + 1e-6).log()).mean()
        loss.backward()
        optimizer.step()

    def decode(source: torch.Tensor, pairs: dict | None) -> torch.Tensor:
        """Return greedy translations, (B, T)."""
        prepared, state, tokens = model.prepare(source, lengths, pairs), None, [torch.full((BATCH,), EOS)]
        for _ in range(LENGTH):
            state, out = model.step(tokens[-1], state, prepared)
            tokens.append(log_probs(out.logits, out.copies).argmax(-1).squeeze(1))
        return torch.stack(tokens[1:], dim=1)

    model.eval()
    with torch.no_grad():
        source, target, pairs = sentences()
        names = (target >= FIRST_NAME) & (target < FIRST_WORD)
        for name, found in (("guided", decode(source, pairs)), ("alone", decode(source, None))):
            right = found == target
            print(f"{name}: {right[names].float().mean():.2f} names, {right[~names].float().mean():.2f} words")
            if name == "guided":
                assert right[names].float().mean() > 0.9, "names are not copied"
                assert right[~names].float().mean() > 0.7, "words are not copied"  # one of four is not in the pair
            else:
                assert right[names].float().mean() < 0.3, "names are no secret"
    foreign = [module for module in sys.modules if module.split(".")[0] in ("fairseq", "fairseq_cli", "omegaconf")]
    assert not foreign, f"imported {foreign}"


def test_trains_and_decodes_without_fairseq():
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    run()
