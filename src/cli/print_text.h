#pragma once

namespace accrue::cli {

/// As std::printf, into std::cout, which keeps characters off the terminal that would steer it
/// (PrintableStreams).
[[gnu::format(printf, 1, 2)]] void print_text(const char* format, ...);

}  // namespace accrue::cli
