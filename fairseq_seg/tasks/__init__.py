"""fairseq's face of the task."""
