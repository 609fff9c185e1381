"""One page about a user's data: what they are, how well they can be classified, what more would do.

`measure` reads a file and turns its samples into numbers, `page` tells what the numbers mean (every
sentence is a template of them), draws and lays out.
"""
