"""Times of this package against named rivals, side by side in one run: `python -m benchmarks`."""
