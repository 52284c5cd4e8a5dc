"""fairseq's datasets and batches, with the retrieved pairs of every sentence."""
