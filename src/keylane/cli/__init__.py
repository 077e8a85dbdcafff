"""The command line: one file for each command, which returns data.

    main      entry point: dispatches commands, prints results, maps errors to exit codes
    output    what a command returns, and the one printer: table, JSON, JSON lines, CSV
    options   options that several commands share
    progress  progress on stderr, on a terminal only

Every other module is the command of its name; `demo_lesson` is `demo lesson`, and so on. Modules
here import click and nothing heavy: what a command needs is imported when it runs, so `--help` is quick.
"""
