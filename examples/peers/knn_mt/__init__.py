"""kNN-MT as a --user-dir of fairseq: the task `knn_translation`, beside everything that fairseq_seg registers.

fairseq-generate data-bin --user-dir examples/peers/knn_mt --task knn_translation --path nmt.pt --knn-store FOLDER
"""

from fairseq.models import import_models

import fairseq_seg.models

import_models(fairseq_seg.models.__path__[0], "fairseq_seg.models")
