#pragma once

namespace accrue::cli {

/// Like std::printf, but to std::cout, which keeps control characters off the terminal
/// (PrintableStreams).
[[gnu::format(printf, 1, 2)]] void print_text(const char* format, ...);

}  // namespace accrue::cli
