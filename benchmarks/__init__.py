"""Benchmarks: one file for each question, each printing ratios against a named peer measured in the same run.

`make bench` runs all; `python -m benchmarks router_batch startup` runs some. The figures of each go
to a file of its own in benchmarks/results, with the machine and the commit. The machines are shared and noisy: a ratio
is the best of several interleaved rounds of both sides, and nothing here is a test.
"""
