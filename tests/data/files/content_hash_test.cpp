#include "data/files/content_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>

#include "data/folder.h"

namespace accrue::data {
namespace {

using testing::mebibyte;

std::uint64_t hash_of(std::initializer_list<std::string> parts) {
  ContentHash hash;
  for (const std::string& part : parts) hash.add(std::as_bytes(std::span(part)));
  return hash.value();
}

TEST(ContentHash, NoticesEveryBitAndWhereBytesEnd) {
  std::string text(37, 'x');
  std::set<std::uint64_t> seen{hash_of({text})};
  for (char& byte : text) {
    for (int bit = 0; bit < 8; ++bit) {
      byte = static_cast<char>(byte ^ (1 << bit));
      EXPECT_TRUE(seen.insert(hash_of({text})).second);
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
  EXPECT_NE(hash_of({"ab", "c"}), hash_of({"a", "bc"}));
  EXPECT_NE(hash_of({std::string(8, '\0')}), hash_of({std::string(9, '\0')}));
}

TEST(FingerprintBlocks, CoverASmallFileWhole) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, mebibyte, 4 * mebibyte}) {
    std::int64_t covered = 0;
    for (const Block& block : fingerprint_blocks(bytes)) {
      EXPECT_EQ(block.offset, covered);
      EXPECT_LE(block.size, mebibyte);
      covered += block.size;
    }
    EXPECT_EQ(covered, bytes);
  }
}

TEST(FingerprintBlocks, SampleALargeFileFromEndToEnd) {
  for (const std::int64_t bytes : {4 * mebibyte + 1, 10'000'000'001, std::int64_t{1} << 50}) {
    const auto blocks = fingerprint_blocks(bytes);
    EXPECT_EQ(blocks.front(), (Block{0, mebibyte}));
    EXPECT_EQ(blocks.back(), (Block{bytes - mebibyte, mebibyte}));
    std::int64_t total = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      total += blocks[i].size;
      if (i == 0) continue;
      EXPECT_GE(blocks[i].offset, blocks[i - 1].offset + blocks[i - 1].size) << "overlap";
      EXPECT_LE(blocks[i].offset - blocks[i - 1].offset, bytes / 16 + mebibyte) << "a wide gap";
    }
    EXPECT_EQ(total, 4 * mebibyte);
  }
}

}  // namespace
}  // namespace accrue::data
