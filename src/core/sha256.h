#pragma once

#include <string>
#include <string_view>

namespace accrue {

/// "sha256:" and the 64 hexadecimal digits of these bytes, to detect forgery.
std::string sha256_of(std::string_view bytes);

}  // namespace accrue
