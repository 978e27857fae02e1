"""The real core and the real memory store in a seeded world with a virtual clock.

`world` is the clock and the dice, `mix` what a seed draws, `links` the network, `engine` a synchronous
mirror of the node's loop, `workers` and `clients` models that obey the protocol, `faults` the trouble,
`witness` and `leases` what must hold. `run.check_seed(seed)` plays one world; `planted` breaks things on
purpose.
"""
