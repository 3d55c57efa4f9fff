"""rome and milan, joined once for all files here, which go by each other in this order: networks
of one node each, a second node, the loss of the gateway, and what is left after all of it."""
