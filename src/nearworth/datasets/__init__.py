"""Data to try things on.

noisy_digits      handwritten digits with some wrong training labels; comes with scikit-learn
add_label_noise   wrong labels for data of your own
load              the thirteen datasets of Wang & Jia's Table 1, from a local folder or from OpenML
"""

from nearworth.datasets.balance import balance
from nearworth.datasets.catalogue import NAMES
from nearworth.datasets.digits import NoisyDigits, noisy_digits
from nearworth.datasets.loading import DatasetUnavailableError, PaperDataset, load
from nearworth.datasets.noise import add_label_noise

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
