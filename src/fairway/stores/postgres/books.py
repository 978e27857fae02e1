"""What a leader keeps in memory about what it has written: the number of its news, the roll of what runs."""

from __future__ import annotations

from fairway.stores.postgres.roll import Roll
from fairway.stores.postgres.scribe import Scribe


class Books:
    """One leader's books, written in the order of its commits. After one that failed they are read again."""

    def __init__(self) -> None:
        self.scribe, self.roll = Scribe(), Roll()

    def are_open(self, begins: bool) -> bool:
        """Say whether we know where we are, as far as a commit needs it that may begin attempts, or not."""
        return self.scribe.is_ready and (self.roll.is_ready or not begins)

    @property
    def last_words(self) -> list[str]:
        """What is to be sent with the COMMIT."""
        return self.scribe.last_words

    def begin(self, term: int) -> None:
        """A transaction is about to write in them."""
        self.scribe.begin(term)
        self.roll.begin(term)

    def committed(self) -> None:
        """The transaction that wrote in them last was committed."""
        self.scribe.committed()
        self.roll.committed()

    def forget(self) -> None:
        """Nobody knows what was committed."""
        self.scribe.forget()
        self.roll.forget()
