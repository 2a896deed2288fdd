from tailrace.record.kernels.bytes_column cimport BytesColumn
from tailrace.record.kernels.column_set cimport ColumnSet
from tailrace.record.kernels.fields cimport _intact_to
from tailrace.record.kernels.whole cimport _are_in_order, _walk
