#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace accrue {

/// XXH3 of 64 bits (Collet: xxHash, github.com/Cyan4973/xxHash), which detects accidental changes
/// of bytes except for one in 2^64. It does not protect against forgery.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  /// Continues with `bytes`; the division into calls has no effect.
  void add(std::string_view bytes);
  /// The checksum of all bytes so far: 16 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The checksum of these bytes alone.
std::string checksum_of(std::string_view bytes);

}  // namespace accrue
