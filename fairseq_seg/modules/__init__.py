"""The model's parts in plain torch: they know nothing of fairseq."""
