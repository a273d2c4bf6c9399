#include "core/checksum.h"

#include <array>
#include <charconv>

// This uses xxHash without linking it: everything needed is in this header.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace accrue {
namespace {

std::string in_hexadecimal(XXH64_hash_t hash) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits.data());
  return std::string(digits.size() - count, '0') + std::string(digits.data(), count);
}

}  // namespace

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(std::string_view bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::string Checksum::text() const { return in_hexadecimal(XXH3_64bits_digest(&state_->xxh3)); }

std::string checksum_of(std::string_view bytes) {
  return in_hexadecimal(XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace accrue
