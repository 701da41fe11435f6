"""All peers of a federation in one process: in real time, or in virtual time with simulated links and faults."""
