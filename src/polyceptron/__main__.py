"""`python -m polyceptron` is the command `polyceptron`."""

from polyceptron.cli import main

if __name__ == "__main__":
    main()
