#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/config.h"

namespace accrue::train {

/// The message with which a config is refused; "accepted" if it is not.
inline std::string refusal_of(const std::string& toml,
                              const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(toml, "run.toml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "accepted";
}

}  // namespace accrue::train
