"""The version of the package: stamped on every row, read by the build."""

VERSION = "0.4.0.dev0"
