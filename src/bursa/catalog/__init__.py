"""The catalog: facts about GPU models, from a data file that is checked as it is loaded.

A GPU is found by its slug or by another name that the file gives it, in full: never by a part of a name, since "A10"
stands in "A100". Facts of the physical world are floats here; a price is an integer of micro-US$, as everywhere.
"""

from bursa.catalog.gpu_table import (
    Gpu,
    gpu,
    gpus,
)

__all__ = [
    "Gpu",
    "gpu",
    "gpus",
]
