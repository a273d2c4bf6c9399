#pragma once

#include <cstddef>
#include <vector>

namespace accrue::memory {

/// Bytes [begin, end) of a mapping or a file; whole pages.
struct PageRange {
  std::size_t begin = 0, end = 0;
  std::size_t bytes() const { return end - begin; }
  friend bool operator==(const PageRange&, const PageRange&) = default;
};

std::size_t page_bytes();
std::size_t down_to_page(std::size_t bytes);
std::size_t up_to_page(std::size_t bytes);

/// The ranges in order, without those that are empty and without overlaps.
std::vector<PageRange> merged(std::vector<PageRange> ranges);
/// The parts of [0, end) outside `ranges`, which are merged().
std::vector<PageRange> rest_of(const std::vector<PageRange>& ranges, std::size_t end);
/// The parts of `ranges` outside `others`; both are merged().
std::vector<PageRange> without(const std::vector<PageRange>& ranges,
                               const std::vector<PageRange>& others);

}  // namespace accrue::memory
