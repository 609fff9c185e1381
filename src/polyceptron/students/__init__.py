"""One file for each student: its theory and its simulation."""
