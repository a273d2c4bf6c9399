#pragma once

#include <cstdint>

namespace accrue::data {

inline constexpr std::int64_t cifar_pixel_bytes = 3 * 32 * 32;

/// A version of CIFAR's binary format; the last label byte of a record is the class.
struct CifarVersion {
  const char* name;
  std::int64_t label_bytes;
  std::int64_t classes;
  const char* names_file;  ///< has the classes' names, one per line
  std::int64_t record_bytes() const { return label_bytes + cifar_pixel_bytes; }
  bool operator==(const CifarVersion& other) const { return classes == other.classes; }
};
inline constexpr CifarVersion cifar10{"CIFAR-10", 1, 10, "batches.meta.txt"};
inline constexpr CifarVersion cifar100{"CIFAR-100", 2, 100, "fine_label_names.txt"};

}  // namespace accrue::data
