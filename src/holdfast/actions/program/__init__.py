"""Runs a program of the user as a step: its input, output, signals and exit code pass through, its model calls are recorded.

    workflow     the workflow `exec`, whose single step is the program
    foreground   the terminal, pipes and signals of the command in whose place the program runs
    passage      output on its way from the program to the command's own output, with its end kept
    process      the process of the program, beneath the supervisor of `actions.shell`
    environment  the variables of the program
    block        the workflow `budget`, whose single step is a block of code in this process

The program starts from the top in each attempt: its model calls are answered from the step's journal as far as that goes.
Never here: an engine, a wire format, words for a terminal.
"""
