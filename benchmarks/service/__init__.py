"""How fast the service is, beside the classic way and against its own goals; see README.md."""
