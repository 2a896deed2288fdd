"""The columns of a table as Spark names their types, the way its Parquet reader takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tailrace.spark.errors import TableError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

LONGEST_UNSIGNED_DIGITS: Final = 20


def spark_schema(schema: pa.Schema) -> StructType:
    """TableError names a column that Spark has no type for."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for each in schema:
        try:
            fields.append(StructField(each.name, spark_type(each.type), nullable=True))
        except TypeError as error:
            raise TableError(f"Spark cannot read column {each.name} of type {each.type}: {error}") from error
    return StructType(fields)


def spark_type(of: pa.DataType) -> DataType:
    """TypeError where there is none. Everything in it may be null."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        IntegerType,
        LongType,
        MapType,
        ShortType,
        StructField,
        StructType,
    )

    types = pa.types
    if types.is_struct(of):
        return StructType([StructField(each.name, spark_type(each.type), nullable=True) for each in of])
    if types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of):
        return ArrayType(spark_type(of.value_type), containsNull=True)
    if types.is_map(of):
        return MapType(spark_type(of.key_type), spark_type(of.item_type), valueContainsNull=True)
    unsigned = {
        pa.uint8(): ShortType(),
        pa.uint16(): IntegerType(),
        pa.uint32(): LongType(),
        pa.uint64(): DecimalType(LONGEST_UNSIGNED_DIGITS, 0),
    }
    return unsigned[of] if of in unsigned else from_arrow_type(of)
