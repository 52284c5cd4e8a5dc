"""A cache of what a frozen model makes of retrieved pairs."""
