from tailrace.record.kernels.crc cimport _crc, _three_crcs
