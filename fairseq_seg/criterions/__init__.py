"""fairseq's face of the loss."""
