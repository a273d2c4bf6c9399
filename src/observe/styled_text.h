#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accrue::observe {

/// How a part of a line is shown if a terminal has colours.
enum class Look { plain, faint, strong, good, caution, danger };

/// Columns of `text` in a terminal in which each of its characters (in UTF-8) takes one.
int columns_of(std::string_view text);

/// A line for a terminal that knows its width, however many bytes its looks add.
class StyledText {
 public:
  /// Adds a text, which is made printable_line().
  StyledText& add(std::string_view text, Look look = Look::plain);
  /// Adds spaces up to this width.
  StyledText& pad_to(int columns);
  /// Cuts off what lies beyond this width.
  void cut_to(int columns);

  int columns() const { return columns_; }
  /// The text as bytes for a terminal. With colours, it ends by resetting them.
  std::string in_bytes(bool colours) const;

 private:
  struct Part {
    std::string text;
    Look look;
  };
  std::vector<Part> parts_;
  int columns_ = 0;
};

}  // namespace accrue::observe
