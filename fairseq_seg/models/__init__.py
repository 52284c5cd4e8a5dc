"""fairseq's face of the model."""
