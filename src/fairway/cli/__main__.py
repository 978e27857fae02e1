"""`python -m fairway.cli` is `fairway`."""

from fairway.cli.main import main

main(prog_name="fairway")
