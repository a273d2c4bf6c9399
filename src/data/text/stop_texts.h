#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::data {

/// Ends a text that comes piece by piece if the first of some texts is in it, wherever the
/// pieces are cut.
class StopTexts {
 public:
  /// Throws a usage Error if one of them is empty.
  explicit StopTexts(std::vector<std::string> stops);

  /// What of the text can be told after one more piece: all but what may turn out to be the
  /// beginning of a stop. Once one was found there is nothing more to tell.
  std::string add(std::string_view piece);
  /// What was held back, at the end of the text.
  std::string end();
  /// Whether a stop was found; what was told so far ends before it.
  bool has_stopped() const { return has_stopped_; }

 private:
  std::string take(std::size_t size);

  std::vector<std::string> stops_;
  std::string held_;
  bool has_stopped_ = false;
};

}  // namespace accrue::data
