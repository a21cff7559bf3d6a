"""Coffer for PySpark: sessions over sealed tables, and their results as Arrow.

    import coffer

    spark = coffer.session()
    df = spark.read.format("coffer").load("/data/lineitem")
    table = coffer.to_arrow(df.where("l_quantity < 5"))

This package finds Coffer's jar and programs and sets Spark's configuration. It holds no key and
does no cryptography: that is done by the client engine, a process of its own beside the Spark
driver.
"""

import coffer_spark
from coffer._find import CofferNotFound, find_binary, find_jar
from coffer.pickles import PickleRefused
from coffer.results import NotSealed, local, to_arrow, to_pandas, verified
from coffer.session import configuration, session

coffer_spark.check()

__version__ = "0.1.0"

__all__ = [
    "CofferNotFound",
    "NotSealed",
    "PickleRefused",
    "configuration",
    "find_binary",
    "find_jar",
    "local",
    "session",
    "to_arrow",
    "to_pandas",
    "verified",
]
