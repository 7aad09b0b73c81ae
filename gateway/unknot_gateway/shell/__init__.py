"""The shell: NATS, timers, processes. Wiring around one core for each network; nobody below imports it."""
