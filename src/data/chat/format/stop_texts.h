#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::data {

/// Ends a text that arrives piece by piece if one of some texts is in it, wherever the pieces are
/// cut.
class StopTexts {
 public:
  /// Throws a usage Error if one of them is empty.
  explicit StopTexts(std::vector<std::string> stops);

  /// The part of the text that can be shown after one more piece: all but what may turn out to be
  /// the beginning of a stop. After a stop was found nothing more is shown.
  std::string add(std::string_view piece);
  /// The part that was held back, at the end of the text.
  std::string end();
  /// Whether a stop was found; the text shown so far ends before it.
  bool has_stopped() const { return has_stopped_; }

 private:
  std::string take(std::size_t size);

  std::vector<std::string> stops_;
  std::string held_;
  bool has_stopped_ = false;
};

}  // namespace accrue::data
