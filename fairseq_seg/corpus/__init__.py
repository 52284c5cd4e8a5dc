"""Parallel text as ids of symbols, and the ranked pairs of each sentence: numpy alone, no torch and no fairseq."""
