"""Command lines that prepare data; installed under the name `fairseq_seg_preprocess`."""
