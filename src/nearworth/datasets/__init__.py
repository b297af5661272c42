"""Data to try things on.

noise.py       noisy_digits: handwritten digits with some wrong training labels, which come with scikit-learn;
               add_label_noise: wrong labels for data of your own
catalogue.py   load: the thirteen datasets of Wang & Jia's Table 1, from a local folder or from OpenML;
               balance: two classes of equal size, the paper's way
"""

from nearworth.datasets.catalogue import NAMES, DatasetUnavailableError, PaperDataset, balance, load
from nearworth.datasets.noise import NoisyDigits, add_label_noise, noisy_digits

__all__ = [
    "NAMES",
    "DatasetUnavailableError",
    "NoisyDigits",
    "PaperDataset",
    "add_label_noise",
    "balance",
    "load",
    "noisy_digits",
]
