from tailrace.record.kernels.crc cimport _crc
from tailrace.record.kernels.fields cimport (
    _copy, _int32, _int64, _intact_to, _put_int32, _put_int64, _uint32
)
from tailrace.record.kernels.offset_map cimport _keep_rows, _put_rows
from tailrace.record.kernels.rebuild cimport _rebuild
from tailrace.record.kernels.whole cimport _are_in_order, _walk
