"""The loss as a fairseq criterion."""
