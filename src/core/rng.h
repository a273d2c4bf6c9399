#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace accrue {

/// Counter-based random numbers: a value is a pure function of its key and counter, so it does not
/// depend on earlier draws. Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
/// easy as 1, 2, 3", SC11), from Random123.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

/// One 64-bit word for (seed, stream, index). Streams separate the uses of one seed.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Uniform in [0, 1) with 53 random bits.
double random_unit(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Standard normal values for indices [first, first + out.size()) of a stream (Box-Muller). `first`
/// is even, since two values are made from two words.
void fill_normal(std::span<float> out, std::uint64_t seed, std::uint64_t stream,
                 std::uint64_t first = 0);

/// A keyed permutation of [0, size): position -> element, in O(1) memory and time, so a shuffled
/// epoch can be resumed anywhere. A Feistel network over Philox with cycle walking
/// (Black and Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002).
class Permutation {
 public:
  /// `size` >= 1. The same (size, seed, stream) is the same permutation on every machine.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream);
  std::uint64_t operator()(std::uint64_t position) const;
  std::uint64_t size() const { return size_; }

 private:
  std::uint64_t encrypt(std::uint64_t value) const;
  std::uint64_t size_;
  std::uint32_t half_bits_;
  std::array<std::uint32_t, 2> key_;
  std::uint32_t tweak_;
};

}  // namespace accrue
