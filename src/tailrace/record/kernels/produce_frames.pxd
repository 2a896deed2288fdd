from tailrace.record.kernels.fields cimport _int32
