"""How well planted label errors are found after automatic preparation, against preparation by hand.

    python benchmarks/preparation.py [--seeds 3]

Each case is a table as an expert would have it (typed columns and a scikit-learn ColumnTransformer
made for them) and the same table as people export it: as text, with ids, units, dates, gaps and
constant columns. A tenth of the labels is made wrong; the average precision of the audit's ranking
is compared.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import nearworth as nw

N = 800
NUMBERS = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
CATEGORIES = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
WORDS = make_pipeline(TfidfVectorizer(stop_words="english"), TruncatedSVD(30, random_state=0))
TEXT_WEIGHT = 8.0  # by hand: the best of 1, 2, 4, 8 and 16 for the tickets below
TOPICS = {
    "billing": "invoice payment charged refund card twice amount account bank fee statement price",
    "delivery": (
        "parcel courier late address tracking arrived lost damaged shipping driver package doorstep"
    ),
    "technical": (
        "login password error screen crash update install button page browser version loading"
    ),
}


def numbers(load, mess):
    def make(rng):
        data = load()
        frame = pd.DataFrame(data.data, columns=[f"feature {i}" for i in range(data.data.shape[1])])
        frame = frame.loc[:, frame.nunique() > 1]
        hand = NUMBERS.fit_transform(frame)
        return hand, mess(frame.astype(object), rng), data.target

    return make


def with_ids(frame, rng):
    frame.insert(0, "record_id", rng.permutation(10 * len(frame))[: len(frame)])
    return frame.assign(uuid=[f"{x:08x}" for x in range(len(frame))], site="north", empty="")


def with_units(frame, rng):  # noqa: ARG001
    formats = ("${:,.2f}", "{:.2f} cm", "{:.3f}%", "{:.4g}")
    for i, name in enumerate(frame.columns):
        frame[name] = [formats[i % 4].format(x) if i % 4 else f"${x:,.2f}" for x in frame[name]]
    return frame


def with_gaps(frame, rng):
    for name in frame.columns:
        frame[name] = np.where(
            rng.random(len(frame)) < 0.05, rng.choice(["?", "NA", "-"]), frame[name].astype(str)
        )
    return frame


def titanic(rng):
    y = rng.integers(0, 2, N)
    sex = np.where(rng.random(N) < np.where(y, 0.75, 0.15), "female", "male")
    frame = pd.DataFrame(
        {
            "Pclass": np.clip(rng.normal(2.5 - 0.7 * y, 0.6, N).round(), 1, 3),
            "Age": rng.normal(32 - 3 * y, 13, N).round(),
            "Fare": rng.lognormal(2.5 + 0.8 * y, 0.6, N),
            "SibSp": rng.poisson(0.5, N),
            "Sex": sex,
            "Embarked": rng.choice(["S", "C", "Q"], N, p=[0.7, 0.2, 0.1]),
        }
    )
    frame.loc[rng.random(N) < 0.2, "Age"] = np.nan
    by = [(NUMBERS, ["Pclass", "Age", "Fare", "SibSp"]), (CATEGORIES, ["Sex", "Embarked"])]
    title = np.where(sex == "male", "Mr.", rng.choice(["Mrs.", "Miss."], N))
    messy = frame.assign(
        PassengerId=np.arange(1, N + 1),
        Name=[f"Family{i}, {t} Anna{i % 7} Maria" for i, t in enumerate(title)],
        Ticket=[f"PC {n}" for n in rng.integers(10_000, 99_999, N)],
        Fare=[f"£{x:,.2f}" for x in frame.Fare],
    )
    return prepared(frame, by), messy, y


def adult(rng):
    y = (rng.random(N) < 0.35).astype(int)
    jobs = np.array([f"job {i}" for i in range(60)])
    chance = np.where(np.arange(60)[None] % 3 == y[:, None], 3.0, 1.0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(36 + 9 * y, 11, N).round(),
            "hours": rng.normal(39 + 6 * y, 9, N).round(),
            "education": np.clip(rng.normal(9 + 2.5 * y, 2.2, N).round(), 1, 16),
            "marital": np.where(rng.random(N) < 0.3 + 0.5 * y, "married", "single"),
            "occupation": [rng.choice(jobs, p=p / p.sum()) for p in chance],
        }
    )
    by = [(NUMBERS, ["age", "education", "hours"]), (CATEGORIES, ["marital", "occupation"])]
    messy = frame.assign(
        id=rng.permutation(N), occupation=frame.occupation.where(rng.random(N) > 0.05, "?")
    )
    return prepared(frame, by), messy, y


def tickets(rng):
    y = rng.integers(0, 3, N)
    common = [
        "hello",
        "please",
        "help",
        "with",
        "my",
        "order",
        "thank",
        "you",
        "today",
        "customer",
        "number",
        "since",
    ]
    topics = [words.split() for words in TOPICS.values()]
    every = " ".join(TOPICS.values()).split()
    body = [
        " ".join([*rng.choice(common, 6), *rng.choice(topics[c], 4), *rng.choice(every, 3)])
        for c in y
    ]
    frame = pd.DataFrame({"body": body, "wait": rng.gamma(2, 5, N), "orders": rng.poisson(3, N)})
    by = [(WORDS, "body"), (StandardScaler(), ["wait", "orders"])]
    days = [f"{d:02}/{m:02}/2023" for d, m in rng.integers([1, 1], [29, 13], (N, 2))]
    messy = frame.assign(
        ticket=[f"T-{i:05}" for i in range(N)], opened=days, wait=[f"{w:.1f} h" for w in frame.wait]
    )
    return prepared(frame, by, {"0": TEXT_WEIGHT}), messy, y


def visits(rng):
    y = rng.integers(0, 2, N)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 500, N) + 400 * y, unit="D")
    frame = pd.DataFrame(
        {
            "day": day.astype("int64") / 1e12,
            "amount": rng.normal(1500 + 900 * y, 600, N),
            "share": rng.normal(40 + 15 * y, 12, N),
            "active": (rng.random(N) < 0.3 + 0.4 * y).astype(float),
        }
    )
    german = [f"{x:,.2f}".translate(str.maketrans(",.", ".,")) for x in frame.amount]
    messy = frame.assign(
        day=day.strftime("%d.%m.%Y"),
        amount=german,
        share=[f"{x:.1f} %" for x in frame["share"]],
        active=np.where(frame.active == 1, "Yes", "no"),
        row=np.arange(N),
    )
    return prepared(frame, [(NUMBERS, list(frame))]), messy, y


def prepared(frame, by, weights=None):
    """The columns by (transformer, columns); weights by the position of the transformer."""
    steps = [(str(i), *step) for i, step in enumerate(by)]
    return ColumnTransformer(steps, transformer_weights=weights).fit_transform(frame)


CASES = {
    "breast cancer, ids": numbers(load_breast_cancer, with_ids),
    "wine, units": numbers(load_wine, with_units),
    "iris, units": numbers(load_iris, with_units),
    "breast cancer, gaps": numbers(load_breast_cancer, with_gaps),
    "digits, gaps": numbers(load_digits, with_gaps),
    "titanic-like": titanic,
    "adult-like": adult,
    "tickets": tickets,
    "visits": visits,
}


def average_precision(X, given, wrong):
    return average_precision_score(wrong, 1 - nw.audit_labels(X, given).quality)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    n_seeds, differences = parser.parse_args().seeds, []
    print("| table | by hand | automatic |\n|---|---|---|")
    for name, make in CASES.items():
        scores = []
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            hand, messy, y = make(rng)
            wrong = rng.random(len(y)) < 0.1
            n_classes = int(y.max()) + 1
            given = np.where(wrong, (y + rng.integers(1, n_classes, len(y))) % n_classes, y)
            automatic = nw.TablePreparer().fit_transform(messy)
            scores.append([average_precision(X, given, wrong) for X in (hand, automatic)])
        by_hand, found = np.mean(scores, axis=0)
        differences.append(found - by_hand)
        print(f"| {name} | {by_hand:.3f} | {found:.3f} |", flush=True)
    print(f"\nMean difference: {np.mean(differences):+.3f}")


if __name__ == "__main__":
    main()
