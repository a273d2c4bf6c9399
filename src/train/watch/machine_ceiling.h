#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "accrue/models/compute.h"

namespace accrue::train {

/// The conditions on which a machine's highest rate depends.
struct CeilingKey {
  std::string processor;
  std::string isa;        ///< as libtorch names it
  std::string precision;  ///< precision.compute
  std::string kernels;    ///< the matrix multiplication used
  std::int64_t threads = 1;
};

/// This machine with its present number of threads.
CeilingKey ceiling_key(models::Compute compute);

/// The highest measured rates, in a JSON file that all runs of a machine share:
/// `ceilings[{processor isa precision kernels threads flops_per_second}]`.
///
/// A file that is something else, or missing, has no entries, and the next keep() writes it again.
/// If two processes write at once only one entry stays: the other is measured again some time.
class CeilingCache {
 public:
  /// An empty path: nothing is ever saved.
  explicit CeilingCache(std::filesystem::path file) : file_(std::move(file)) {}

  /// FLOP/s.
  std::optional<double> find(const CeilingKey& key) const;
  /// Adds or replaces a rate, atomically. Returns false if it cannot be written.
  bool keep(const CeilingKey& key, double flops_per_second) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

/// accrue/ceilings.json in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache); empty if the
/// environment names none.
std::filesystem::path ceiling_cache_file();

/// The highest rate of square matrix products, in FLOP/s: larger and larger ones, up to
/// `peak_shape`, as long as the next will probably end within `most_seconds` and its operands take
/// at most `most_bytes`. A product of 512 x 512 x 512 takes milliseconds, and is measured however
/// busy the machine is; none if even its operands do not fit.
std::optional<double> measure_ceiling(models::Compute compute, double most_seconds,
                                      std::int64_t most_bytes);

}  // namespace accrue::train
