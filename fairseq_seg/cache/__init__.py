"""A cache of a frozen model's entries for retrieved pairs."""
