# What C needs and Python does not.

from libc.string cimport memcpy
