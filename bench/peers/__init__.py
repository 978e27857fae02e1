"""How Fairway on PostgreSQL compares with its peers, in one run on one server: `make bench-peers`.

    python -m bench.peers [--quick] [--only ...] [--sides ...] [--rounds 5] [--jobs 100000]

A *side* (`side.py`) is one queue to be measured; `measure.py` measures all of them alike. Peers are
described in `roster.py`; each has a program of its own in `programs/`, run by the Python or Node it was
installed for (`install.py`). Fairway is `fairway_pg.py`, the limit of the server itself `raw.py`.
"""
