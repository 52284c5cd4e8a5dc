"""Command lines around trained models."""
