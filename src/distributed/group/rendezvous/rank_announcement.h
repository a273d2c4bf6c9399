#pragma once

#include <sstream>
#include <string>

namespace accrue::distributed {

/// The topic under which ranks tell each other that they are present.
inline constexpr const char* kAnnouncement = "here";

/// A rank's text under that topic.
struct RankAnnouncement {
  std::string run;       ///< the run's name, from rank 0 alone, in a run's first group
  std::string lifeline;  ///< where others watch this process; empty: nowhere
  std::string process;   ///< RankProcess::text()

  std::string text() const { return run + kThen + lifeline + kThen + process; }
  /// Parts that `text` does not have are empty.
  static RankAnnouncement of(const std::string& text) {
    std::istringstream lines(text);
    RankAnnouncement announcement;
    for (std::string* const part :
         {&announcement.run, &announcement.lifeline, &announcement.process})
      std::getline(lines, *part, kThen);
    return announcement;
  }

 private:
  static constexpr char kThen = '\n';
};

}  // namespace accrue::distributed
