"""Samples as they come: in memory, sparse, on disk or on a cluster; their checks and moments."""
