"""Translation memories of one's own: pairs that are added, changed and deleted while a translator uses them."""
