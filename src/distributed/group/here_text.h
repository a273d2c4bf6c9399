#pragma once

#include <string>

namespace accrue::distributed {

/// The topic under which ranks tell each other that they are here.
inline constexpr const char* kHere = "here";

/// What a rank says there.
struct HereText {
  std::string run;       ///< the run's name, which rank 0 alone says, in a run's first group
  std::string lifeline;  ///< where others watch this process; empty: nowhere

  std::string text() const { return run + kThen + lifeline; }
  /// Whatever else stands in `text` is read as a name without a lifeline.
  static HereText of(const std::string& text) {
    const std::size_t at = text.find(kThen);
    return {.run = text.substr(0, at),
            .lifeline = at == std::string::npos ? "" : text.substr(at + 1)};
  }

 private:
  static constexpr char kThen = '\n';
};

}  // namespace accrue::distributed
