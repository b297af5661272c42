"""`python -m nearworth`: the command line, where its script is not on the path."""

from nearworth.cli import main

if __name__ == "__main__":
    main(prog_name="python -m nearworth")
