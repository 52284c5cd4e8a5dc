"""Work on files of segments: translate them, count them by match, check them, show where each translation came from."""
