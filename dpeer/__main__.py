"""``python -m dpeer``: the same as the ``dpeer`` command."""

from dpeer.cli import main

if __name__ == "__main__":
    main()
