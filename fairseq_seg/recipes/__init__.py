"""From text to model folders, translations and a report: the steps that recipes and `seg-train` share."""
