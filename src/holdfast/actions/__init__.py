"""Workflows in YAML: a subset of GitHub Actions' syntax, with extensions, from the text of a file to its last script.

    expressions  GitHub's expression language, by itself
    binding      a script with expressions in it, made safe
    syntax       the text of a file -> a document, or everything that is wrong with it
    shell        one script in a subprocess
    jobs         a document -> a Workflow, and what its jobs and their steps do

The arrows: `jobs` stands on `syntax` and `shell`, which know nothing of one another; `syntax` on `binding` and
`expressions`. Never here: the engine, a store, a connection.
"""
