#pragma once

#include <string>

namespace accrue::train {

/// Two keys that exclude each other.
struct Conflict {
  std::string key;       ///< the one to change
  std::string expected;  ///< with the reason
  std::string received;
  std::string suggestion;
};

}  // namespace accrue::train
