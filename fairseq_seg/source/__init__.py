"""Who gives a sentence its pairs: what seg-attach stored, or a search at translation time."""
