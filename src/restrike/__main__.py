"""`python -m restrike`: the same command as `restrike`."""

from restrike.cli import main

if __name__ == "__main__":
    main()
