#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::accum {

/// Compression of gradients that are sent between ranks.
enum class Compression { none, bf16, int8, powersgd };
/// The words of dist.compress.
inline constexpr auto compression_words =
    enum_words<Compression>({{Compression::none, "none"},
                             {Compression::bf16, "bf16"},
                             {Compression::int8, "int8"},
                             {Compression::powersgd, "powersgd"}});
constexpr std::string_view to_string(Compression compression) {
  return compression_words.of(compression);
}

}  // namespace accrue::accum
