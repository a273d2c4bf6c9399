#include "accum/content_watch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "accum/element_place.h"
#include "accum/slot_binding.h"

namespace accrue::accum {
namespace {

using Entry = GradientBuffer::Entry;

/// The number of elements of a sum from which the largest are taken.
constexpr std::int64_t kFirstLook = 64;
/// If these are nearly all zero, every kSparseLook-th element is read, and one of each row (most
/// rows of an embedding have no gradient), until enough are found.
constexpr std::int64_t kSparseLook = 256;

const char* bytes_of(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

template <class Word>
std::uint64_t word_at(const char* data, std::int64_t index) {
  Word word;
  std::memcpy(&word, data + index * static_cast<std::int64_t>(sizeof(Word)), sizeof(Word));
  return word;
}

template <class Word, std::size_t N>
void read_words(const at::Tensor& from, const std::array<std::int64_t, N>& at, std::size_t count,
                std::array<std::uint64_t, N>& into) {
  const char* data = bytes_of(from);
  if (from.is_contiguous()) {
    for (std::size_t i = 0; i < count; ++i) into[i] = word_at<Word>(data, at[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) into[i] = word_at<Word>(data, place_of(from, at[i]));
  }
}

/// The bits of elements of any dtype.
template <std::size_t N>
void read(const at::Tensor& from, const std::array<std::int64_t, N>& at, std::size_t count,
          std::array<std::uint64_t, N>& into) {
  switch (from.itemsize()) {
    case 8:
      return read_words<std::uint64_t>(from, at, count, into);
    case 4:
      return read_words<std::uint32_t>(from, at, count, into);
    case 2:
      return read_words<std::uint16_t>(from, at, count, into);
    default:
      return read_words<std::uint8_t>(from, at, count, into);
  }
}

/// Magnitudes of floating-point numbers in the order of their bits; NaN and infinity are last.
std::uint64_t magnitude_of(std::uint64_t bits, std::size_t bytes) {
  return bits & ~(std::uint64_t{1} << (8 * bytes - 1));
}

/// Element `i` of `looks` that are spread over `elements`, in different columns of a matrix from
/// row to row.
std::int64_t spread(std::int64_t i, std::int64_t looks, std::int64_t elements) {
  constexpr std::int64_t scatter = 7919;
  return i * elements / looks + i * scatter % (elements / looks);
}

}  // namespace

ContentWatch::ContentWatch(const GradientBuffer& buffer, bool parameters)
    : buffer_(buffer), parameters_(parameters) {
  const std::vector<Entry>& entries = buffer_.entries();
  if (!entries.empty() && !entries.front().parameter.is_cpu()) {
    on_device_ = std::make_unique<DeviceSamples>(buffer_, parameters_);
    return;
  }
  samples_.resize(entries.size());
  for (std::size_t index = 0; index < entries.size(); ++index) {
    Sample& sample = samples_[index];
    const std::int64_t elements = entries[index].parameter.numel();
    sample.count = static_cast<std::size_t>(std::min<std::int64_t>(kElements, elements));
    const auto count = static_cast<std::int64_t>(sample.count);
    for (std::int64_t i = 0; i < count; ++i)
      sample.at[static_cast<std::size_t>(i)] = spread(i, count, elements);
  }
}

ContentWatch::~ContentWatch() = default;

void ContentWatch::begin_window() {
  leaves_sums_ = false;
  if (on_device_) return on_device_->begin_window();
  for (std::size_t index = 0; index < samples_.size(); ++index) {
    samples_[index].has_sum = samples_[index].judged = false;
    see_parameter(index);
  }
}

void ContentWatch::see_sums() {
  if (leaves_sums_) return;
  if (on_device_) return on_device_->see_sums();
  for (std::size_t index = 0; index < samples_.size(); ++index) see_sum(index);
}

void ContentWatch::see_all() {
  if (on_device_) return on_device_->begin_window();
  for (std::size_t index = 0; index < samples_.size(); ++index) see_parameter(index);
  see_sums();
}

void ContentWatch::see_parameter(std::size_t index) {
  // After a conversion, elements are in other memory; the window's owner reports that instead.
  if (!parameters_ || !buffer_.conversion(index).empty()) return;
  Sample& sample = samples_[index];
  read(buffer_.entries()[index].parameter, sample.at, sample.count, sample.parameter);
}

void ContentWatch::see_sum(std::size_t index) {
  const Entry& entry = buffer_.entries()[index];
  Sample& sample = samples_[index];
  sample.has_sum = !entry.slot->fresh && !entry.staged && !entry.folded;
  if (!sample.has_sum) return;
  read(entry.slot->main, sample.at, sample.count, sample.sum);
  if (!std::exchange(sample.judged, true) && !moves(index)) search_largest(index);
}

/// Whether the watched elements have sums. This is decided with a window's first sums, and they are
/// watched as long as it holds, over many windows.
bool ContentWatch::moves(std::size_t index) const {
  const Sample& sample = samples_[index];
  const std::size_t bytes = buffer_.entries()[index].slot->main.itemsize();
  const auto zeros = std::count_if(
      sample.sum.begin(), sample.sum.begin() + static_cast<std::ptrdiff_t>(sample.count),
      [&](std::uint64_t bits) { return magnitude_of(bits, bytes) == 0; });
  return sample.chosen && static_cast<std::size_t>(zeros) * 2 <= sample.count;
}

void ContentWatch::search_largest(std::size_t index) {
  const Entry& entry = buffer_.entries()[index];
  Sample& sample = samples_[index];
  sample.chosen = true;
  const at::Tensor& sum = entry.slot->main;
  const std::int64_t elements = sum.numel();
  if (elements <= static_cast<std::int64_t>(kElements)) return;
  const char* data = bytes_of(sum);
  const std::size_t bytes = sum.itemsize();
  std::vector<std::pair<std::uint64_t, std::int64_t>> found;
  const auto look_at = [&](std::int64_t element) {
    const std::uint64_t bits = bytes == sizeof(double) ? word_at<std::uint64_t>(data, element)
                                                       : word_at<std::uint32_t>(data, element);
    const std::uint64_t magnitude = magnitude_of(bits, bytes);
    if (magnitude != 0) found.emplace_back(magnitude, element);
  };
  const std::int64_t first = std::min(kFirstLook, elements);
  for (std::int64_t i = 0; i < first; ++i) look_at(spread(i, first, elements));
  const std::int64_t sparse = std::max(elements / kSparseLook, sum.size(0));
  for (std::int64_t i = 0; i < sparse && found.size() < kElements; ++i)
    look_at(spread(i, sparse, elements));
  const std::size_t taken = std::min(found.size(), sample.count);
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(taken), found.end(),
                    std::greater<>());
  for (std::size_t i = 0; i < taken; ++i) sample.at[i] = found[i].second;
  see_parameter(index);
  read(sum, sample.at, sample.count, sample.sum);
}

bool ContentWatch::parameter_changed(std::size_t index) const {
  if (on_device_ || !parameters_) return false;
  const Sample& sample = samples_[index];
  std::array<std::uint64_t, kElements> now{};
  read(buffer_.entries()[index].parameter, sample.at, sample.count, now);
  return !std::equal(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(sample.count),
                     sample.parameter.begin());
}

bool ContentWatch::sum_changed(std::size_t index) const {
  if (on_device_ || leaves_sums_ || !samples_[index].has_sum) return false;
  const Sample& sample = samples_[index];
  std::array<std::uint64_t, kElements> now{};
  read(buffer_.entries()[index].slot->main, sample.at, sample.count, now);
  return !std::equal(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(sample.count),
                     sample.sum.begin());
}

void ContentWatch::compare_sums_on_device() {
  if (on_device_ && !leaves_sums_) on_device_->compare_sums();
}

std::vector<ContentWatch::Found> ContentWatch::found_on_device() {
  return on_device_ ? on_device_->found() : std::vector<Found>();
}

}  // namespace accrue::accum
