"""Measurements that are run by hand (`make bench`); their results are committed beside them."""
