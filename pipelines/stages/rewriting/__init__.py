"""Personality-based rewriting (PEER, arXiv 2508.09521, section 3): the same talk between people of another make.

describe each speaker by DISC -> cluster the descriptions, k by the elbow -> draw another one of the same cluster ->
rewrite utterance by utterance -> compare with the original -> score. `pipelines.rewriting` puts these in order.
"""
