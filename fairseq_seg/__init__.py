"""Search-engine-guided neural machine translation (Gu et al., AAAI 2018) as a fairseq plugin.

This file imports nothing, so that the light parts (`fairseq_seg.retrieval`, the command lines' `--help`) do not pay
for fairseq and torch. `--user-dir` makes fairseq import the tasks, models and criterions.
"""

__version__ = "0.1.0"
