#pragma once

#include <gtest/gtest.h>

#include <string>

#include "accrue/core/error.h"

namespace accrue::data::testing {

/// The message of the Error that `call` throws, which must be of `kind`.
template <class Call>
std::string refusal(Error::Kind kind, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace accrue::data::testing
