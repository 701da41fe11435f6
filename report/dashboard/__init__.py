"""Dashboard: one page for the peers of this host, read from their control sockets and run folders."""
