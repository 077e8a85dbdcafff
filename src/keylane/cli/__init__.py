"""The command line: one file for each command, which returns data; `output` shows it, `main` ends with the exit code.

Modules here import click and nothing heavy: what a command needs is imported when it runs, so `--help` is quick.
"""
