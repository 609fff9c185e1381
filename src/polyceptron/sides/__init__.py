"""One pass of the loop: averages over a sample's fields, averages over a coordinate's weights."""
