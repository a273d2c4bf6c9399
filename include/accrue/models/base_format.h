#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The format of the frozen matrices of a model's linear layers while adapters are trained.
/// Products unpack formats in blocks each time they read them.
enum class BaseFormat {
  as_stored,  ///< in the dtype of the products
  bf16,
  q8_0,  ///< 32 numbers of 8 bits with a scale: 8.5 bits each
  q4_k,  ///< 256 numbers of 4 bits with scales and minima: 4.5 bits each
};
/// The words of model.base.
inline constexpr auto base_format_words =
    enum_words<BaseFormat>({{BaseFormat::as_stored, "as stored"},
                            {BaseFormat::bf16, "bf16"},
                            {BaseFormat::q8_0, "q8_0"},
                            {BaseFormat::q4_k, "q4_k"}});
constexpr std::string_view to_string(BaseFormat format) { return base_format_words.of(format); }

}  // namespace accrue::models
