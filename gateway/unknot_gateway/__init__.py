"""The gateway: one pure core, one shell around it, one command."""
