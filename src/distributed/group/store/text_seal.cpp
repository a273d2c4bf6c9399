#include "distributed/group/store/text_seal.h"

#include <sodium.h>

#include <array>
#include <cstdint>

namespace accrue::distributed {
namespace {

static_assert(TextSeal::kBytes == crypto_auth_hmacsha512256_BYTES);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Takes one text after the other, each with its length, so that different lists of texts give
/// different signatures.
class Signature {
 public:
  explicit Signature(std::string_view token) {
    crypto_auth_hmacsha512256_init(&state_, bytes_of(token), token.size());
  }

  void add(std::string_view text) {
    const std::uint64_t size = text.size();
    std::array<unsigned char, sizeof size> digits{};
    for (std::size_t i = 0; i < digits.size(); ++i)
      digits[i] = static_cast<unsigned char>(size >> (8 * i));  // the same on all processors
    crypto_auth_hmacsha512256_update(&state_, digits.data(), digits.size());
    crypto_auth_hmacsha512256_update(&state_, bytes_of(text), text.size());
  }

  std::string end() {
    std::string seal(TextSeal::kBytes, '\0');
    crypto_auth_hmacsha512256_final(&state_, reinterpret_cast<unsigned char*>(seal.data()));
    return seal;
  }

 private:
  crypto_auth_hmacsha512256_state state_{};
};

}  // namespace

std::string TextSeal::seal_of(std::string_view key, std::string_view text) const {
  Signature signature(token_);
  for (const std::string_view part : {std::string_view(run_), key, text}) signature.add(part);
  return signature.end();
}

std::string TextSeal::sealed(std::string_view key, std::string_view text) const {
  return seal_of(key, text).append(text);
}

std::optional<std::string> TextSeal::opened(std::string_view key, std::string_view bytes) const {
  if (bytes.size() < kBytes) return std::nullopt;
  const std::string_view text = bytes.substr(kBytes);
  if (sodium_memcmp(bytes.data(), seal_of(key, text).data(), kBytes) != 0) return std::nullopt;
  return std::string(text);
}

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  std::array<char, 2 * bytes.size() + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), bytes.data(), bytes.size());
  return digits.data();
}

}  // namespace accrue::distributed
