#pragma once

#include <cstdint>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {

/// Files that contain no sample of the requested context.
class TooFewTokens final : public Error {
 public:
  TooFewTokens(Error error, std::int64_t context, std::int64_t longest_context)
      : Error(std::move(error)), context_(context), longest_context_(longest_context) {}

  std::int64_t context() const noexcept { return context_; }
  /// The longest context of which they contain a sample; 0 if there is none.
  std::int64_t longest_context() const noexcept { return longest_context_; }

 private:
  std::int64_t context_, longest_context_;
};

}  // namespace accrue::data
