# Databricks notebook source
# MAGIC %md
# MAGIC # prspark in five minutes
# MAGIC How robust is a system to rewording? Score the shipped sample, look at the worst group, then use your own table.
# MAGIC This notebook also runs as a plain script: `python notebooks/quickstart.py`.

# COMMAND ----------

# MAGIC %pip install prspark

# COMMAND ----------

import sys

from pyspark.sql import SparkSession

import prspark
from prspark.data import sample_path

spark = SparkSession.builder.getOrCreate()  # in Databricks, the notebook's own session

# COMMAND ----------

# MAGIC %md
# MAGIC ## 1. A table of answers
# MAGIC One row an answer: `input_id`, `prompt`, `sut_response`, and `metadata.original_query`, which says what each
# MAGIC prompt is a rewording of. The sample holds real answers of five systems to five questions.

# COMMAND ----------

answers = spark.read.json(sample_path().as_uri())
answers.select("input_id", "metadata.model", "prompt", "sut_response").show(5)

# COMMAND ----------

# MAGIC %md
# MAGIC ## 2. Score it
# MAGIC The embedded judge is free and needs no network. All judging is done when this line returns.

# COMMAND ----------

scored = prspark.score(answers, {"columns": {"group_by": ["metadata.model"]}})

# COMMAND ----------

systems = scored.selectExpr(
    "metadata.model",
    "metadata.original_query",
    "perturbation_robustness_external AS score",
    "perturbation_robustness_external_details.outcome",
).distinct()
systems.groupBy("model").avg("score").orderBy("avg(score)", ascending=False).show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## 3. The worst groups
# MAGIC `outcome` tells a system that is reliably right from one that is reliably wrong: both are stable.

# COMMAND ----------

systems.orderBy("score").show(5)

# COMMAND ----------

# MAGIC %md
# MAGIC ## 4. With a model as the judge
# MAGIC Put the token into the environment variable `PRSPARK_JUDGE_TOKEN` and see what it would cost before it costs:
# MAGIC ```python
# MAGIC config = {"judge": {"kind": "chat", "base_url": "https://host/v1", "model": "a-model"}}
# MAGIC print(prspark.plan(answers, config).to_dict())
# MAGIC scored = prspark.score(answers, config, journal="/Volumes/main/default/prspark-journal")
# MAGIC ```

# COMMAND ----------

assert scored.count() == answers.count()
print(f"{scored.count()} rows scored with Python {sys.version_info[0]}.{sys.version_info[1]}")
