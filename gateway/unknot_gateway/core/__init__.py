"""Pure: is told (fact, now), returns effects. No clock, I/O, await, randomness, logging, environment."""
