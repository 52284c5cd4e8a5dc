"""Provenance of translations: records without torch, the model's trace, and how people see them."""
