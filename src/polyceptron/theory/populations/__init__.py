"""Populations whose classes are not alike: matrices in place of scalars."""
