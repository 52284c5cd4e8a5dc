"""Where a sentence's pairs come from: the attached file, or a search at translation time."""
