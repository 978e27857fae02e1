"""The command line: one module for each noun, `main.py` finds them, `output.py` writes for all."""
