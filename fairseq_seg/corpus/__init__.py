"""Parallel text as symbol ids, and the ranked pairs of each sentence. Needs numpy, but neither torch nor fairseq."""
