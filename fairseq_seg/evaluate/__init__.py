"""Score translations of an attached split, and show them as text, JSON, figures and one HTML page.

Nothing here imports torch or fairseq: a checkpoint is decoded and explained in processes of their own.
"""
