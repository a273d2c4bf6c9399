#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "accrue/core/error.h"

namespace accrue::testing {

/// The message of the accrue::Error that `call` throws, which must be of `kind` if that is given;
/// fails if it throws none.
template <typename Call>
std::string error_of(Call&& call, std::optional<Error::Kind> kind = {}) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind()));
    return error.what();
  }
  ADD_FAILURE() << "no accrue::Error was thrown";
  return "";
}

template <typename Call>
std::string usage_message(Call&& call) {
  return error_of(call, Error::Kind::usage);
}

}  // namespace accrue::testing
