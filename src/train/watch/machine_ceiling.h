#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "accrue/models/compute.h"

namespace accrue::train {

/// What a machine's highest rate depends on.
struct CeilingKey {
  std::string processor;
  std::string isa;        ///< as libtorch has it
  std::string precision;  ///< precision.compute
  std::string kernels;    ///< who multiplies matrices
  std::int64_t threads = 1;
};

/// This machine with the threads that are set now.
CeilingKey ceiling_key(models::Compute compute);

/// Highest rates that were measured, in a JSON file that all runs of a machine share:
/// `ceilings[{processor isa precision kernels threads flops_per_second}]`.
///
/// A file that is not that, or not there, has none, and is written anew by the next keep(). Two
/// processes that write at once leave the entry of one: the other's is measured again one day.
class CeilingCache {
 public:
  /// An empty path: nothing is ever kept.
  explicit CeilingCache(std::filesystem::path file) : file_(std::move(file)) {}

  /// FLOP/s.
  std::optional<double> find(const CeilingKey& key) const;
  /// Adds or replaces one, atomically. Returns false if that cannot be written.
  bool keep(const CeilingKey& key, double flops_per_second) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

/// accrue/ceilings.json in the user's folder of caches ($XDG_CACHE_HOME, else ~/.cache); empty
/// if the environment names none.
std::filesystem::path ceiling_cache_file();

/// The highest rate of square matrix products, in FLOP/s: larger and larger ones, up to
/// `peak_shape`, as far as the next is likely to end within `most_seconds` and its operands take at
/// most `most_bytes`. A product of 512 x 512 x 512 takes milliseconds, and is measured however busy
/// the machine is; none if not even its operands are within that.
std::optional<double> measure_ceiling(models::Compute compute, double most_seconds,
                                      std::int64_t most_bytes);

}  // namespace accrue::train
