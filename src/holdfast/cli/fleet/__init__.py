"""The commands that stay: workers, servers, and whole fleets on one machine."""
