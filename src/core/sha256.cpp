#include "core/sha256.h"

#include <sodium.h>

#include <array>

namespace accrue {

std::string sha256_of(std::string_view bytes) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size());
  std::array<char, 2 * digest.size() + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), digest.data(), digest.size());
  return std::string("sha256:") + digits.data();
}

}  // namespace accrue
