"""Who leads: terms, beats and the wait for a silent leader."""
