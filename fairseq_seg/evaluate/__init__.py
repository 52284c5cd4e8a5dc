"""Scores translations of an attached split, and shows them as text, JSON, figures and one HTML page.

Nothing here imports torch or fairseq: a checkpoint is decoded, and its gates are read, in processes of their own.
"""
