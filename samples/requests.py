#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The event "requests" in Python. An argument says how many seconds it serves."""
import ctypes
import fcntl
import os
import struct
import sys
import time

DIAG_IOCSREG = 0xC0082A00
DESCRIPTION = ctypes.create_string_buffer(b"requests u64 ns; u32 status; __data_loc char[] path")
enabled = ctypes.c_uint32()  # The kernel sets bit 0 while a consumer is attached.

try:
    data = os.open("/sys/kernel/tracing/user_events_data", os.O_WRONLY | os.O_CLOEXEC)
    reg = bytearray(struct.pack("=IBBHQQI", 28, 0, 4, 0, ctypes.addressof(enabled),
                                ctypes.addressof(DESCRIPTION), 0))
    fcntl.ioctl(data, DIAG_IOCSREG, reg)
    index = reg[-4:]
except OSError as error:
    print(f"requests.py: serving untraced: {error}; 'user-events doctor' shows the cause", flush=True)
end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 5)
while time.monotonic() < end:
    start = time.monotonic_ns()
    time.sleep(0.01)  # Here a request is served.
    if enabled.value & 1:
        path = b"/python\0"
        fields = struct.pack("=QII", time.monotonic_ns() - start, 200, len(path) << 16 | 8 + 16)
        try:
            os.writev(data, [index, fields, path])
        except OSError:
            pass  # The loss is the consumer's; EBADF: it has just detached.
