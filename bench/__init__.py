"""Benchmarks: ratios between ralph and a floor or a peer, each taken within one round on one commit."""
