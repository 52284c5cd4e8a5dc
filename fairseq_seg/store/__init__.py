"""The user's own translation memories: pairs are added, changed and deleted while a translator uses them."""
