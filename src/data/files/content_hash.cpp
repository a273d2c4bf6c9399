#include "data/files/content_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace accrue::data {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t whole_up_to = 4 * mebibyte;
constexpr std::int64_t inner_blocks = 32;
constexpr std::int64_t inner_block_bytes = 64 * 1024;

// The finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA 2014): every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

std::uint64_t load_word(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
  return word;
}

std::vector<Block> consecutive_blocks(std::int64_t bytes) {
  std::vector<Block> blocks;
  for (std::int64_t offset = 0; offset < bytes; offset += mebibyte)
    blocks.push_back({offset, std::min(mebibyte, bytes - offset)});
  return blocks;
}

}  // namespace

void ContentHash::add(std::uint64_t word) { state_ = mix(std::rotl(state_, 5) ^ word); }

void ContentHash::add(std::span<const std::byte> bytes) {
  const std::size_t size = bytes.size();
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(std::uint64_t))))
    add(load_word(bytes));
  add(static_cast<std::uint64_t>(size));
}

std::vector<Block> fingerprint_blocks(std::int64_t bytes) {
  if (bytes <= whole_up_to) return consecutive_blocks(bytes);
  std::vector<Block> blocks{{0, mebibyte}};
  const std::int64_t room = bytes - 2 * mebibyte - inner_block_bytes;
  for (std::int64_t i = 0; i < inner_blocks; ++i)
    blocks.push_back({mebibyte + room / (inner_blocks - 1) * i, inner_block_bytes});
  blocks.push_back({bytes - mebibyte, mebibyte});
  return blocks;
}

}  // namespace accrue::data
