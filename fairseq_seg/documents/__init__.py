"""Files that are translated in place: readers that find the segments, writers that change their targets alone."""
