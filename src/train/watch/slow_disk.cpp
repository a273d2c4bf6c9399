#include "train/watch/slow_disk.h"

#include <cmath>
#include <utility>

#include "accrue/core/units.h"

namespace accrue::train {
namespace {

constexpr double kLeastSeconds = 1;
/// A rate below this part of the measured one is reported.
constexpr double kSlow = 0.5;

std::string rate_text(double bytes_per_second) {
  return format_bytes(std::llround(bytes_per_second)) + "/s";
}

/// "read the state at RATE, less than half of the RATE"; empty if that is not so.
std::string slow_in_words(const char* verb, const memory::Transfers& moved, double measured) {
  if (moved.seconds < kLeastSeconds || moved.bytes == 0 || measured <= 0) return {};
  const double rate = static_cast<double>(moved.bytes) / moved.seconds;
  if (rate >= kSlow * measured) return {};
  return std::string(verb) + " the state at " + rate_text(rate) + ", less than half of the " +
         rate_text(measured);
}

}  // namespace

SlowDisk::SlowDisk(std::string folder, const memory::DiskRates& measured)
    : folder_(std::move(folder)), measured_(measured) {}

std::optional<std::string> SlowDisk::observe(const memory::Transfers& read,
                                             const memory::Transfers& written) {
  if (is_told_) return std::nullopt;
  std::string slow = slow_in_words("read", read, measured_.read);
  const std::string in_writing = slow_in_words("wrote", written, measured_.write);
  if (!slow.empty() && !in_writing.empty()) slow += ", and ";
  slow += in_writing;
  if (slow.empty()) return std::nullopt;
  is_told_ = true;
  return "the disk of " + folder_ + " " + slow +
         " that were measured before the first step: another program that keeps it busy is "
         "suspected, or a network that others use; accrue plan predicts the seconds of a step by "
         "what it measures then";
}

}  // namespace accrue::train
