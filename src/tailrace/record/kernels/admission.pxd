from tailrace.record.kernels.crc cimport _crc
from tailrace.record.kernels.fields cimport _int32, _int64, _put_int32, _put_int64, _uint32
from tailrace.record.kernels.whole cimport _check
