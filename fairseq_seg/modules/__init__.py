"""SEG-NMT in plain torch: a translator and the memory around it, without fairseq."""
