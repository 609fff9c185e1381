"""Checks of the package's promises on this machine.

Reading order: `check` (a number of ours beside a reference), `known_values` (numbers of somebody
else), the groups of checks (`equal_classes`, `unequal_classes`, `identities`, `simulations`), and
`run` (all groups, one check after another).
"""
