#include "cli/tokenizing.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "accrue/core/units.h"
#include "core/printable_streams.h"
#include "core/words.h"

namespace accrue::cli {
namespace {

/// A count as text for people.
using InWords = std::string (*)(std::int64_t);

std::string in_pairs(std::int64_t count) { return counted(count, "pair"); }

/// The progress of a long operation, with its name `what`.
class ProgressLine {
 public:
  ProgressLine(const char* what, InWords in_words) : what_(what), in_words_(in_words) {}

  void tell(std::int64_t done, std::int64_t all) {
    const Clock::time_point now = Clock::now();
    if (!start_) {
      start_ = now;
      next_ = now + first_after;
    }
    if (done >= all) return finish();
    if (now < next_) return;
    next_ = now + (is_terminal_ ? between_redraws : between_lines);
    std::cerr << Unescaped{is_terminal_ ? wipe : ""} << text(done, all, now)
              << (is_terminal_ ? "" : "\n") << std::flush;
    is_drawn_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds first_after{1'000}, between_redraws{200},
      between_lines{10'000};

  static constexpr const char* wipe = "\r\x1b[K";

  std::string text(std::int64_t done, std::int64_t all, Clock::time_point now) const {
    const double seconds = std::chrono::duration<double>(now - *start_).count();
    const double share = static_cast<double>(done) / static_cast<double>(all);
    return what_ + "  " + in_words_(done) + " of " + in_words_(all) + " (" +
           std::to_string(static_cast<int>(100 * share)) + "%)  " +
           in_words_(static_cast<std::int64_t>(static_cast<double>(done) / seconds)) + "/s";
  }

  void finish() {
    if (is_drawn_ && is_terminal_) std::cerr << Unescaped{wipe} << std::flush;
    is_drawn_ = false;
    start_.reset();
  }

  std::string what_;
  InWords in_words_;
  std::optional<Clock::time_point> start_;  ///< of the current operation
  Clock::time_point next_;
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool is_drawn_ = false;
};

data::TellProgress told_by(const char* what, InWords in_words) {
  return [line = std::make_shared<ProgressLine>(what, in_words)](
             std::int64_t done, std::int64_t all) { line->tell(done, all); };
}

}  // namespace

data::TellProgress tell_tokenizing() { return told_by("tokenizing", format_bytes); }

data::TellProgress tell_reference() { return told_by("reference", in_pairs); }

}  // namespace accrue::cli
