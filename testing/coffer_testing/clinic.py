"""A program as an analyst of a hospital writes it: nothing in it knows of Coffer.

`report(spark, folder)` takes a session that has the tables `patients` and `visits`, and a folder
for its files; it returns its figures as plain lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

mpl.use("Agg")

import matplotlib.pyplot as plt

WARDS = [
    Row(ward="A1", speciality="cardiology", beds=24),
    Row(ward="B2", speciality="surgery", beds=30),
    Row(ward="C3", speciality="geriatrics", beds=18),
    Row(ward="D4", speciality="paediatrics", beds=12),
]


def report(spark: SparkSession, folder: Path) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    patients, visits = spark.table("patients"), spark.table("visits")

    # First look.
    visits.printSchema()
    visits.show(3)
    figures["columns"] = visits.columns
    figures["counts"] = [patients.count(), visits.count()]
    figures["described"] = rows(
        visits.select("days", "cost").describe().where(f.col("summary").isin("count", "max"))
    )
    figures["nulls"] = rows(
        visits.agg(*[f.count(f.when(f.col(c).isNull(), 1)).alias(c) for c in visits.columns])
    )

    # Cleaning: impossible stays out, unknown wards marked, one row per visit.
    clean = (
        visits.where((f.col("days") >= 0) & f.col("admitted").isNotNull())
        .na.fill({"ward": "unknown"})
        .dropDuplicates(["visit"])
        .withColumn("year", f.year("admitted"))
        .withColumn("month", f.date_trunc("month", "admitted").cast("date"))
        .withColumn("weekend", f.dayofweek("admitted").isin(1, 7))
        .withColumn("diagnosed", f.size("diagnoses"))
        .withColumn("left_on", f.expr("date_add(CAST(admitted AS DATE), days)"))
    )
    clean.cache()
    figures["clean"] = clean.count()

    # By ward, beside a small table that was typed in.
    wards = spark.createDataFrame(WARDS)
    by_ward = (
        clean.join(f.broadcast(wards), "ward", "left")
        .groupBy("ward", "speciality")
        .agg(
            f.count("*").alias("visits"),
            f.round(f.avg("days"), 3).alias("days"),
            f.sum("cost").alias("cost"),
            f.countDistinct("patient").alias("patients"),
            f.percentile_approx("days", 0.5, 1000).alias("median"),
        )
        .orderBy(f.desc("visits"), "ward")
    )
    figures["by_ward"] = ordered(by_ward)
    figures["occupied"] = rows(
        clean.groupBy("ward")
        .agg(f.sum("days").alias("days"))
        .join(wards, "ward")
        .select("ward", f.round(f.col("days") / f.col("beds"), 2).alias("share"))
    )

    # Windows: readmissions within thirty days, running cost, the dearest three a ward.
    history = Window.partitionBy("patient").orderBy("admitted", "visit")
    stays = clean.withColumn("before", f.lag("left_on").over(history)).withColumn(
        "again", f.datediff(f.col("admitted").cast("date"), "before") <= 30
    )
    figures["readmitted"] = rows(
        stays.groupBy("year").agg(
            f.count(f.when(f.col("again"), 1)).alias("again"), f.count("*").alias("all")
        )
    )
    running = history.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    figures["running"] = rows(
        clean.withColumn("spent", f.sum("cost").over(running))
        .groupBy("patient")
        .agg(f.max("spent").alias("spent"))
        .orderBy(f.desc("spent"), "patient")
        .limit(10)
    )
    dearest = Window.partitionBy("ward").orderBy(f.desc("cost"), "visit")
    figures["dearest"] = rows(
        clean.withColumn("rank", f.row_number().over(dearest))
        .where("rank <= 3")
        .select("ward", "rank", "visit", "cost")
    )

    # Diagnoses are lists: one row each, their shares, pairs that come together.
    each = clean.select("visit", "year", "ward", f.explode("diagnoses").alias("code"))
    each.persist(StorageLevel.MEMORY_AND_DISK)
    figures["codes"] = rows(each.groupBy("code").count())
    figures["chapters"] = rows(
        each.withColumn("chapter", f.regexp_extract("code", "^([A-Z])", 1))
        .groupBy("chapter")
        .agg(f.collect_set("code").alias("codes"))
        .select("chapter", f.size("codes").alias("codes"))
    )
    other = each.select("visit", f.col("code").alias("other"))
    figures["pairs"] = rows(
        each.join(other, "visit")
        .where(f.col("code") < f.col("other"))
        .groupBy("code", "other")
        .count()
        .orderBy(f.desc("count"), "code", "other")
        .limit(8)
    )
    figures["acute"] = rows(
        clean.where(f.exists("diagnoses", lambda code: code.startswith("I2")))
        .select("visit", f.transform("diagnoses", f.lower).alias("codes"))
        .orderBy("visit")
        .limit(5)
    )

    # Vitals are maps, the address a struct.
    figures["pulse"] = rows(
        clean.where(f.map_contains_key("vitals", "pulse"))
        .groupBy("weekend")
        .agg(f.min(f.col("vitals")["pulse"]), f.max(f.col("vitals")["pulse"]))
    )
    figures["cities"] = rows(
        patients.where("born < DATE '1960-01-01'").groupBy("address.city").count()
    )

    # Pivot, rollup and SQL over a view.
    figures["pivot"] = ordered(
        clean.groupBy("year").pivot("ward", ["A1", "B2", "C3", "D4"]).sum("cost").orderBy("year")
    )
    figures["rollup"] = rows(clean.rollup("year", "ward").agg(f.sum("days").alias("days")))
    clean.createOrReplaceTempView("stays")
    figures["sql"] = ordered(
        spark.sql("""
            WITH monthly AS (
                SELECT month, count(*) AS visits, sum(cost) AS cost FROM stays GROUP BY month
            )
            SELECT month, visits, cost - lag(cost) OVER (ORDER BY month) AS change
            FROM monthly ORDER BY month
        """)
    )

    # The analyst's own functions.
    @f.pandas_udf("double")
    def score(days: pd.Series, diagnoses: pd.Series) -> pd.Series:
        return days.clip(0, 30) / 30 + diagnoses.map(len) * 0.25

    @f.udf("string")
    def age_group(born: Any) -> str | None:
        return None if born is None else f"{born.year // 10 * 10}s"

    figures["scores"] = rows(
        clean.withColumn("score", f.round(score("days", "diagnoses"), 4))
        .groupBy("ward")
        .agg(f.max("score").alias("most"), f.count(f.when(f.col("score") > 1, 1)).alias("high"))
    )
    figures["ages"] = rows(patients.groupBy(age_group("born").alias("born")).count())

    def trend(ward: pd.DataFrame) -> pd.DataFrame:
        monthly = ward.groupby("month")["days"].sum()
        return pd.DataFrame(
            {"ward": [ward["ward"].iloc[0]], "months": [len(monthly)], "most": [monthly.max()]}
        )

    figures["trends"] = rows(
        clean.select("ward", "month", "days")
        .groupBy("ward")
        .applyInPandas(trend, "ward string, months long, most long")
    )

    def flagged(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield batch[batch["cost"] > 4_500][["visit"]]

    figures["flagged"] = clean.select("visit", "cost").mapInPandas(flagged, "visit long").count()

    # Home: statistics, a table for the report, two plots.
    figures["quantiles"] = clean.approxQuantile("days", [0.25, 0.5, 0.75], 0.0)
    figures["correlation"] = round(clean.stat.corr("days", "diagnosed"), 6)
    monthly = clean.groupBy("month", "ward").agg(f.sum("days").alias("days")).toPandas()
    table = monthly.pivot_table(index="month", columns="ward", values="days", aggfunc="sum")
    figures["table"] = [int(table.size), int(table.fillna(0).to_numpy().sum())]
    table.to_csv(folder / "days.csv")
    plot(table, folder / "days.png")
    sample = clean.select("days", "diagnosed").orderBy("visit").limit(200).toPandas()
    scatter(sample, folder / "sample.png")
    figures["iterated"] = sum(1 for _ in by_ward.toLocalIterator())

    # What is kept goes on as a table of its own.
    each.unpersist()
    figures["kept"] = keep(spark, clean)
    clean.unpersist()
    return figures


def keep(spark: SparkSession, clean: DataFrame) -> list[Any]:
    """Saves the yearly figures where the session keeps tables, and reads them again."""
    yearly = clean.groupBy("year", "ward").agg(f.sum("cost").alias("cost"))
    yearly.write.mode("overwrite").partitionBy("year").saveAsTable("yearly")
    again = spark.table("yearly").where("year = 2024").orderBy("ward")
    before = ordered(again.select("ward", "cost"))
    yearly.write.mode("append").partitionBy("year").saveAsTable("yearly")
    return [*before, spark.table("yearly").count()]


def plot(table: pd.DataFrame, path: Path) -> None:
    axes = table.plot(kind="line", figsize=(9, 4), title="Days in hospital by ward")
    axes.set_ylabel("days")
    axes.figure.savefig(path)
    plt.close(axes.figure)


def scatter(sample: pd.DataFrame, path: Path) -> None:
    axes = sample.plot.scatter(x="diagnosed", y="days")
    axes.figure.savefig(path)
    plt.close(axes.figure)


def rows(df: DataFrame) -> list[str]:
    return sorted(repr(list(row)) for row in df.collect())


def ordered(df: DataFrame) -> list[str]:
    return [repr(list(row)) for row in df.collect()]
