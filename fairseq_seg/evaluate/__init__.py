"""Score translations of an attached split, and show them as text, JSON, figures and one HTML page.

Nothing here imports torch or fairseq: separate processes decode and explain checkpoints.
"""
