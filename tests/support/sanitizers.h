#pragma once

namespace accrue::testing {

/// Whether this program is compiled with the address sanitizer: g++ and clang differ in the macro.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool with_address_sanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool with_address_sanitizer = true;
#else
inline constexpr bool with_address_sanitizer = false;
#endif
#else
inline constexpr bool with_address_sanitizer = false;
#endif

}  // namespace accrue::testing
