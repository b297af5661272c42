"""Twenty awkward but honest tables, as people have them: messy headings, ids, dates, texts, gaps.

`CSVS` maps names to functions of a generator that return columns. The column "label" is the target.
`in_other_formats` writes tables that are no plain CSV.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from helpers.command_line import write_csv

N = 120
GOOD = [
    "the battery lasts long and charges fast",
    "great screen with bright colours",
    "works well and arrived early",
]
BAD = [
    "the battery died after a week",
    "screen broken and no refund",
    "arrived late and does not work at all",
]


def titanic(rng):
    sex = rng.choice(["male", "female"], N)
    kind = rng.integers(1, 4, N)
    survived = np.where(rng.random(N) < np.where(sex == "female", 0.9, 0.1), "yes", "no")
    return {
        "": np.arange(N),
        "PassengerId": np.arange(1, N + 1),
        "Pclass": kind,
        "Name": [f"Nr{i}, {'Mr.' if s == 'male' else 'Mrs.'} John {i}" for i, s in enumerate(sex)],
        "Sex": sex,
        "Age": [f"{a:.0f}" if rng.random() < 0.8 else "" for a in rng.normal(30, 9, N)],
        "Ticket": [f"PC {n}" for n in rng.integers(10_000, 99_999, N)],
        "Fare": rng.gamma(2, 15, N).round(2),
        "Cabin": [f"C{n}" if rng.random() < 0.3 else "" for n in rng.integers(1, 99, N)],
        "Embarked": rng.choice(["S", "C", "Q", ""], N),
        "label": survived,
    }


def adult(rng):
    age = rng.integers(17, 80, N)
    return {
        "age": age,
        "workclass": rng.choice(["Private", "State-gov", "?"], N),
        "fnlwgt": rng.integers(1e4, 1e6, N),
        "occupation": rng.choice([f"job {i}" for i in range(60)], N),
        "capital.gain": rng.choice([0, 0, 0, 99999], N),
        "label": np.where(age > 45, " >50K", rng.choice([" <=50K", " <=50K."[:6]], N)),
    }


def tickets(rng):
    good = rng.random(N) < 0.5
    return {
        "ticket_id": [f"T-{i:05}" for i in range(N)],
        "created": [
            f"{d:02}/{m:02}/2023 {h:02}:15"
            for d, m, h in rng.integers([1, 1, 0], [29, 13, 24], (N, 3))
        ],
        "body": [f"{rng.choice(GOOD if g else BAD)} number {i}" for i, g in enumerate(good)],
        "priority": rng.choice(["Low", "high", "n/a"], N),
        "label": [
            rng.choice(["Praise", "praise ", "PRAISE"] if g else ["Complaint", "complaint"])
            for g in good
        ],
    }


def housing(rng):
    area = rng.normal(100, 20, N)
    return {
        "address": [f"{i} Main Street" for i in range(N)],
        "area": [f"{a:.1f} m2" for a in area],
        "deposit": [f"{x:.0f} %" for x in rng.uniform(0, 50, N)],
        "built": rng.integers(1900, 2020, N),
        "garden": rng.choice(["yes", "no"], N),
        "label": [f"${3000 * a:,.2f}" for a in area],
    }


def sensors(rng):
    state = np.arange(N) % 3
    reading = rng.normal(size=(N, 4)) + state[:, None]
    return {
        "timestamp": [f"2024-01-01T00:{i // 60:02}:{i % 60:02}Z" for i in range(N)],
        **{
            f"s{j}": np.where(rng.random(N) < 0.1, "-", reading[:, j].round(3).astype(str))
            for j in range(4)
        },
        "firmware": ["1.2.3"] * N,
        "label": np.array(["ok", "warm", "hot"])[state],
    }


def german(rng):
    y = np.arange(N) % 2
    return {
        "betrag": [
            f"{1000 * x:,.2f}".translate(str.maketrans(",.", ".,")) for x in rng.gamma(2, 2, N)
        ],
        "datum": [f"{d}.{m}.{y}" for d, m, y in rng.integers([1, 1, 1990], [29, 13, 2020], (N, 3))],
        "größe": [
            f"{150 + 20 * a + b:.1f}".replace(".", ",")
            for a, b in zip(y, rng.normal(0, 5, N), strict=True)
        ],
        "label": np.array(["süß", "herb"])[y],
    }


def sklearn_set(load, mess=None):
    def make(rng):
        data = load()
        columns = {
            f"f {i}": column.round(4).astype(object) for i, column in enumerate(data.data.T[:12])
        }
        if mess is not None:
            mess(columns, rng)
        return columns | {"label": data.target}

    return make


def with_gaps(columns, rng):
    for name in columns:
        columns[name][rng.random(len(columns[name])) < 0.1] = rng.choice(["NA", "", "?", "None"])


def with_ids(columns, rng):
    n = len(columns["f 0"])
    columns |= {
        "uuid": [f"{x:032x}" for x in range(n)],
        "Unnamed: 0": np.arange(n),
        "empty": [""] * n,
        "k": [1] * n,
    }


def blobs(rng, label):
    y = np.arange(N) % 2
    return {"a": rng.normal(size=N) + 3 * y, "b": rng.normal(size=N), "label": label(y, rng)}


def wide(rng):
    y = np.arange(60) % 2
    return {f"gene {i}": (rng.normal(size=60) + y * (i < 50)).round(3) for i in range(2_000)} | {
        "label": y
    }


def hostile(rng):
    y = np.arange(N) % 2
    cells = [
        "=1+2",
        "@SUM(A1)",
        "<script>alert(1)</script>",
        'quote " and, comma',
        "line\nbreak",
        "x" * 100_000,
    ]
    return {"cell": [cells[i % 6] for i in range(N)], "=cmd": rng.normal(size=N) + y, "label": y}


CSVS = {
    "titanic": titanic,
    "adult": adult,
    "tickets": tickets,
    "housing": housing,
    "sensors": sensors,
    "iris with gaps": sklearn_set(load_iris, with_gaps),
    "wine with ids": sklearn_set(load_wine, with_ids),
    "cancer": sklearn_set(load_breast_cancer),
    "diabetes, amounts": sklearn_set(load_diabetes),
    "unlabelled": lambda rng: blobs(
        rng, lambda y, rng: [str(v) if rng.random() < 0.8 else "" for v in y]
    ),
    "labels as numbers": lambda rng: blobs(rng, lambda y, rng: [f"{v}.0" for v in y]),
    "signs": lambda rng: blobs(rng, lambda y, rng: ["+-"[v] for v in y]),
    "wide": wide,
    "hostile": hostile,
}


def in_other_formats(rng, folder):
    """Paths of tables that are no plain CSV."""
    y = np.arange(N) % 2
    vectors = rng.normal(size=(N, 8))
    write_csv(folder / "german.csv", german(rng), delimiter=";")
    (folder / "german.csv").write_bytes((folder / "german.csv").read_text().encode("cp1252"))
    lists = [None, *(vectors + y[:, None]).tolist()[1:]]
    pq.write_table(
        pa.table({"text": [f"t{i}" for i in range(N)], "vec": lists, "label": y}),
        folder / "vec.parquet",
    )
    columns = tickets(rng)
    rows = [
        dict(zip(columns, map(str, cells), strict=True))
        for cells in zip(*columns.values(), strict=True)
    ]
    (folder / "tickets.jsonl").write_text("\n".join(map(json.dumps, rows)))
    digits, label = load_digits(return_X_y=True)
    np.savez(folder / "digits.npz", images=digits[:200].reshape(-1, 8, 8), classes=label[:200])
    write_csv(folder / "sensors.tsv", sensors(rng), delimiter="\t")
    (folder / "sensors.tsv.gz").write_bytes(gzip.compress((folder / "sensors.tsv").read_bytes()))
    frame = pd.DataFrame(
        {"a": vectors[:, 0] + 4 * y, "label": pd.Categorical(np.where(y, "new york", "ulm"))}
    )
    frame.index = pd.Index([f"row {i}" for i in range(N)], name="name")
    frame.to_parquet(folder / "pandas.parquet")
    adult_table = pd.DataFrame(adult(rng))
    adult_table.to_excel(folder / "adult.xlsx")
    return {path.name: path for path in sorted(folder.iterdir()) if path.suffix != ".tsv"}


OTHER_FORMATS = [
    "adult.xlsx",
    "digits.npz",
    "german.csv",
    "pandas.parquet",
    "sensors.tsv.gz",
    "tickets.jsonl",
    "vec.parquet",
]
