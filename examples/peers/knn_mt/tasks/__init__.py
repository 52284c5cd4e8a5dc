"""fairseq's face of kNN-MT."""
