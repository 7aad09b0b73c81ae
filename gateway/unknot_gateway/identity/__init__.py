"""Who may connect to the NATS server, as what: users, their permissions, the server's configuration of them."""
