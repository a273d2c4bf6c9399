#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace accrue::data {

/// A 64-bit hash that detects changed data. It does not withstand forgery.
class ContentHash {
 public:
  /// Bytes and their boundaries count: "ab", "c" is not "a", "bc".
  void add(std::span<const std::byte> bytes);
  void add(std::uint64_t word);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

struct Block {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  bool operator==(const Block&) const = default;
};

/// The parts of a file of `bytes` bytes that a fingerprint reads (defined in Source::fingerprint),
/// in order, each at most a MiB and together at most 4 MiB.
std::vector<Block> fingerprint_blocks(std::int64_t bytes);

}  // namespace accrue::data
