"""The two sides where classes are unequal: order parameters are matrices."""
