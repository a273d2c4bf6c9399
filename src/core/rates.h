#pragma once

#include <string>
#include <string_view>

namespace accrue {

/// Parses the rate of a link or a disk, such as "25Gbit/s", "100 Mbit/s", "3GB/s" or "1.5 GiB/s",
/// and returns bytes a second. Bits and decimal units are powers of 1000, binary ones of 1024.
/// Throws a usage Error naming `what` for any other text, and for 0.
double parse_byte_rate(std::string_view text, std::string_view what);

/// Parses the operations that a machine does in a second: "400T", "1.5 PFLOP/s", "500GFLOP/s".
/// Throws a usage Error naming `what` for any other text, and for 0.
double parse_operation_rate(std::string_view text, std::string_view what);

/// 3.125e9 -> "3.12 GB/s": for people.
std::string format_byte_rate(double bytes_per_second);
/// 4e14 -> "400 TFLOP/s": for people.
std::string format_operation_rate(double operations_per_second);

}  // namespace accrue
