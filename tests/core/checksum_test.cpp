#include "core/checksum.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

/// XXH3_64bits of the empty input, from xxHash's own tests (seed 0).
TEST(Checksum, OfNothingIsTheLibrarysOwn) {
  EXPECT_EQ(checksum_of(""), "2d06800538d394c2");
  EXPECT_EQ(Checksum().text(), "2d06800538d394c2");
}

TEST(Checksum, DoesNotDependOnHowTheBytesAreDivided) {
  std::string bytes(5000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i % 251);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{256}, bytes.size()}) {
    Checksum checksum;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      checksum.add(std::string_view(bytes).substr(at, piece));
    EXPECT_EQ(checksum.text(), checksum_of(bytes)) << piece;
  }
}

TEST(Checksum, TellsEveryFlippedBitApart) {
  const std::string bytes = "what was written";
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(checksum_of(changed), checksum_of(bytes)) << bit;
  }
}

}  // namespace
}  // namespace accrue
