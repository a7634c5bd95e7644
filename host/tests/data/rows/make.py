#!/usr/bin/env python3
"""Writes the Parquet files beside this one from `rows.jsonl`, with pyarrow, as
published data sets are written."""

import json
import pathlib

import pyarrow
import pyarrow.parquet

here = pathlib.Path(__file__).parent
rows = [json.loads(line) for line in open(here / "rows.jsonl", encoding="utf-8")]
table = pyarrow.Table.from_pylist(rows)
for name, codec in (("snappy", "snappy"), ("plain", "none"), ("zstd", "zstd")):
    pyarrow.parquet.write_table(table, here / f"{name}.parquet", compression=codec)
