"""The real core and the real memory store in a seeded world with a virtual clock.

`world` is the clock and the dice, `mix` what a seed draws, `links` the network, `engine` a synchronous
mirror of the node's loop, `workers` and `clients` models that obey the protocol, `tenants` those with long
jobs, `lookers` those who only ask, `faults` the trouble. `witness` sees what must hold, with `leases`,
`promises` and `shares`. `run.check_seed(seed)` plays one world; `planted` breaks things on purpose.
"""
