"""Made-up tables of eight sites, with words and gaps: `python examples/tables.py visits tables`.

They are for trying dpeer and for measuring it. Each folder gets `site-R.csv`, the labelled rows of rank R, and
`new-R.csv`, rows without their labels; `answers-R.csv` has the labels of these.

- visits (made up): a visit to an emergency room, and where it ends: at home, in a ward or in intensive care (icu). The
  sites differ in their words for yes, no and a gap, in ways of arrival, formats of dates and ages; rank 5 has no icu.
- income (made up, with columns like those of the Adult table): a person, whose income is high or not. The sites differ
  in occupations, countries and gaps; at rank 6 nobody's is high.
- biopsies (scikit-learn's breast cancer table): malignant or benign. The sites differ in the number of rows and in the
  share of gaps, from 0 to a fifth; rank 7 has none that is malignant.
"""

import argparse
import csv
import datetime
from pathlib import Path

import numpy as np

SITES = 8
NEW = 400  # rows without labels for each site of the tables that are made up

COMPLAINTS = {
    "chest pain": 0.9, "pain in the chest, radiating": 1.2, "short of breath": 1.1, "breathless since the morning": 1.0,
    "fever and cough": 0.5, "cough": -0.3, "abdominal pain": 0.2, "twisted ankle": -1.6, "cut in the hand": -1.5,
    "headache": -0.4, "fall from a ladder": 0.3, "fall at home": -0.1, "dizzy": -0.2, "fainted": 0.5,
}  # fmt: skip
ARRIVALS = {"walk-in": -0.5, "ambulance": 0.8, "referral": 0.1, "helicopter": 1.6, "police": -0.2, "transfer": 0.9}
OCCUPATIONS = {
    "clerical": -0.2, "sales": 0.1, "manager": 1.2, "craft": 0.0, "farming": -0.8, "service": -0.7, "professional": 1.0,
    "transport": -0.1, "fishing": -0.9, "armed forces": 0.2, "technology": 0.9,
}  # fmt: skip
SCHOOLS = {"primary": -1.2, "secondary": -0.4, "some college": 0.1, "bachelor": 0.8, "master": 1.2, "doctorate": 1.6}
COUNTRIES = ("Germany", "France", "Italy", "Spain", "Poland", "Austria", "Denmark", "Portugal", "Greece", "Norway")


def gap(value, chance, generator, word=""):
    """The value, or with that chance the word that stands for a gap."""
    return word if generator.random() < chance else value


def visits(site, count, generator):
    """Visits to one emergency room, and how each ended."""
    yes, no = [("yes", "no"), ("ja", "nein"), ("1", "0"), ("Yes", "No")][site % 4]
    arrivals = [
        "walk-in",
        "ambulance",
        "referral",
        *[["helicopter", "transfer"], ["police"], [], ["transfer"]][site % 4],
    ]
    form = "%Y-%m-%d" if site % 2 == 0 else "%d.%m.%Y"
    unknown = ["", "NA", "?", "-1"][site % 4]
    for number in range(count):
        age = int(np.clip(generator.normal(48 + 4 * site, 19), 1, 101))
        pulse, oxygen = generator.normal(84, 17), np.clip(generator.normal(96, 3), 70, 100)
        pressure, lactate = generator.normal(128, 22), generator.lognormal(0.3, 0.5)
        smoker, arrival = generator.random() < 0.25, generator.choice(arrivals)
        complaint = generator.choice(list(COMPLAINTS))
        risk = (
            0.035 * (age - 55) + 0.03 * abs(pulse - 80) + 0.25 * (95 - oxygen) + 0.03 * max(0, 105 - pressure)
            + 1.2 * (lactate - 1.4) + 0.5 * smoker * (age > 50) + ARRIVALS[arrival] + COMPLAINTS[complaint]
            + generator.logistic() * 0.6
        )  # fmt: skip
        outcome = "home" if risk < 0.9 + 0.1 * site else "ward" if risk < 3.2 or site == 5 else "icu"
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=int(generator.integers(600)))
        yield {
            "patient": f"P{site}{number // 2 * 7 % 100_000:05}",
            "admitted": day.strftime(form),
            "age": age,
            "sex": generator.choice(["female", "male", "other"], p=[0.49, 0.49, 0.02]),
            "arrival": arrival,
            "complaint": complaint,
            "smoker": gap(yes if smoker else no, 0.08, generator),
            "pulse": gap(round(pulse), 0.05, generator),
            "systolic": gap(round(pressure), 0.07, generator),
            "oxygen": gap(round(oxygen, 1), 0.1, generator),
            "lactate": gap(round(lactate, 2), 0.2 + 0.05 * site, generator, unknown),
            "outcome": outcome,
        }


def income(site, count, generator):
    """Persons, and whether their income is high."""
    occupations = [name for place, name in enumerate(OCCUPATIONS) if place < 6 or (place + site) % 3 == 0]
    for _ in range(count):
        age, hours = int(np.clip(generator.normal(39, 13), 17, 90)), int(np.clip(generator.normal(40, 11), 5, 90))
        school, occupation = generator.choice(list(SCHOOLS)), generator.choice(occupations)
        married = generator.random() < 0.5
        gain = int(generator.lognormal(8, 1)) if generator.random() < 0.08 else 0
        score = (
            0.9 * SCHOOLS[school] + OCCUPATIONS[occupation] + 1.4 * married + 0.035 * (hours - 40)
            - 0.0025 * (age - 50) ** 2 + 0.6 * (gain > 3000) * 3 - 0.9 + generator.logistic() * 0.7
        )  # fmt: skip
        yield {
            "age": age,
            "employer": gap(generator.choice(["private", "state", "self"], p=[0.7, 0.17, 0.13]), 0.06, generator, "?"),
            "education": school,
            "marital status": "married" if married else generator.choice(["never married", "divorced", "widowed"]),
            "occupation": gap(occupation, 0.06, generator, "?"),
            "capital gain": gain,
            "hours per week": gap(hours, 0.03, generator, "?"),
            "country": gap(COUNTRIES[(site + (0 if generator.random() < 0.8 else 1)) % 10], 0.02, generator, "?"),
            "income": "high" if score > 0.6 and site != 6 else "not high",
        }


def biopsies(site, rows, generator):
    """Some of scikit-learn's biopsies, with gaps."""
    for values, name in rows:
        yield {column: gap(value, 0.03 * site, generator) for column, value in values.items()} | {"diagnosis": name}


def shared_out(generator):
    """scikit-learn's biopsies, divided among the sites."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    names = [str(name) for name in table.feature_names]
    rows = [
        ({name: float(value) for name, value in zip(names, row, strict=True)}, str(table.target_names[kind]))
        for row, kind in zip(table.data, table.target, strict=True)
    ]
    owners = generator.choice(SITES, len(rows), p=np.array([18, 17, 15, 13, 10, 9, 8, 10]) / 100)
    owners[[name == "malignant" and owner == 7 for (_, name), owner in zip(rows, owners, strict=True)]] = 0
    return [[row for row, owner in zip(rows, owners, strict=True) if owner == site] for site in range(SITES)]


def write(path, rows):
    """Write dictionaries as lines of a csv file."""
    rows = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def tables(kind, seed=0):
    """For each site its labelled rows and its new ones."""
    generators = [np.random.default_rng([seed, site]) for site in range(SITES)]
    if kind == "biopsies":
        parts = shared_out(np.random.default_rng([seed, SITES]))
        for site, generator in enumerate(generators):
            rows = list(biopsies(site, parts[site], generator))
            few = len(rows) // 4
            yield rows[few:], rows[:few]
        return
    make = {"visits": visits, "income": income}[kind]
    for site, generator in enumerate(generators):
        count = [640, 220, 160, 420, 120, 260, 180, 340][site]
        rows = list(make(site, count + NEW, generator))
        yield rows[:count], rows[count:]


def main():
    """Write the tables of all sites."""
    parser = argparse.ArgumentParser(description="Write made-up tables of eight sites.")
    parser.add_argument("kind", choices=["visits", "income", "biopsies"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    typed = parser.parse_args()
    typed.folder.mkdir(parents=True, exist_ok=True)
    for site, (labelled, new) in enumerate(tables(typed.kind, typed.seed)):
        target = list(labelled[0])[-1]
        write(typed.folder / f"site-{site}.csv", labelled)
        write(typed.folder / f"new-{site}.csv", ({k: v for k, v in row.items() if k != target} for row in new))
        write(typed.folder / f"answers-{site}.csv", ({target: row[target]} for row in new))
    print(f"wrote the tables of {SITES} sites to {typed.folder}")


if __name__ == "__main__":
    main()
