"""How fast the market is, beside other authors' order books and against its own goals; see README.md."""
